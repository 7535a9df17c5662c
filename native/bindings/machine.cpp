// guessahead._native: what the machine can do (instruction sets, threads, peaks).
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>

#include "bindings/bind.hpp"
#include "plan/matrix.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace ga;

namespace {

// Bytes per second that all workers together read from memory: the best of a few sweeps over 512 MiB.
double read_bandwidth(Pool& pool) {
  constexpr std::size_t kBytes = std::size_t{512} << 20, kPart = std::size_t{1} << 20;
  Arena arena(kBytes, 1);
  std::uint8_t* data = arena.allocate(0, kBytes);
  std::memset(data, 1, kBytes);
  std::atomic<std::uint64_t> sink{0};
  double best = 0.0;
  for (int sweep = 0; sweep < 5; ++sweep) {
    std::atomic<int> next{0};
    const auto start = std::chrono::steady_clock::now();
    pool.run([&](int) {
      Claims claims(next, kBytes / kPart);
      std::uint64_t sums[16] = {};
      for (int part; claims.take(part);) {
        const auto* p = reinterpret_cast<const std::uint64_t*>(data + part * kPart);
        for (std::size_t i = 0; i < kPart / 8; i += 16)
          for (int j = 0; j < 16; ++j) sums[j] ^= p[i + j];
      }
      for (std::uint64_t s : sums) sink ^= s;
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, kBytes / seconds);
  }
  return best;
}

// Multiply-adds per second of all workers together, on registers.
double peak(Pool& pool, const std::string& isa, const std::string& unit) {
  const Kernels& kernels = select_kernels(isa);
  if (unit != "int8" && unit != "f32") throw std::invalid_argument("peak: the unit is int8 or f32");
  const auto run = unit == "int8" ? kernels.peak_int8 : kernels.peak_float;
  double best = 0.0;
  for (int i = 0; i < 5; ++i) {
    std::vector<double> counts(pool.size());
    const auto start = std::chrono::steady_clock::now();
    pool.run([&](int worker) { counts[worker] = run(1000000); });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, std::accumulate(counts.begin(), counts.end(), 0.0) / seconds);
  }
  return best;
}

}  // namespace

void bind_machine(nb::module_& m) {
  m.def(
      "isa", [](const std::string& wanted) { return std::string(select_kernels(wanted).name); },
      "wanted"_a = "",
      "Name of the instruction set that runs; \"\" = GUESSAHEAD_ISA, else the best. ValueError where it "
      "cannot be used.");

  m.def(
      "isas",
      [] {
        std::vector<std::string> names;
        for (const Kernels* kernels : usable_kernels()) names.emplace_back(kernels->name);
        return names;
      },
      "Names of the instruction sets that can be used here, the best first.");

  nb::class_<Pool>(m, "Pool",
                   "Worker threads, the same for all who ask for as many; the caller is one of them.")
      .def(nb::new_(&Pool::shared), "threads"_a)
      .def_prop_ro("size", &Pool::size);

  m.def("read_bandwidth", &read_bandwidth, "pool"_a, "Bytes per second read from memory by all workers.");
  m.def("peak", &peak, "pool"_a, "isa"_a = "", "unit"_a = "int8",
        "Multiply-adds per second of all workers; unit: \"int8\" or \"f32\".");
}
