// guessahead._native.Matrix and Arena: weights in memory.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>

#include "bindings/arrays.hpp"
#include "bindings/bind.hpp"
#include "bindings/gil.hpp"
#include "plan/buffer.hpp"
#include "plan/matrix.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace ga;

namespace {

Format format_named(const std::string& name) {
  for (int i = 0; i < kNumFormats; ++i)
    if (name == kFormats[i].name) return static_cast<Format>(i);
  throw std::invalid_argument("no kernels for tensors of type " + name);
}

std::shared_ptr<Matrix> make_matrix(Pool& pool, const std::string& format_name, int n, int k, Bytes data,
                                    std::optional<Ints> order, std::shared_ptr<Arena> arena) {
  const Format format = format_named(format_name);
  if (n < 1 || k < 1 || k % info(format).block != 0 || data.size() != n * file_row_bytes(format, k))
    throw std::invalid_argument("matrix: the data does not fit the shape");
  if (order) {
    if (order->size() != static_cast<std::size_t>(n))
      throw std::invalid_argument("matrix: order has a wrong length");
    for (std::size_t i = 0; i < order->size(); ++i)
      if ((*order)(i) < 0 || (*order)(i) >= n)
        throw std::invalid_argument("matrix: order names a row that is not there");
  }
  if (arena == nullptr) arena = std::make_shared<Arena>(packed_bytes(format, n, k), pool.size());
  const WithoutGil release;  // others may be using the pool
  return pack_matrix(pool, std::move(arena), format, n, k, data.data(), order ? order->data() : nullptr);
}

Array<float> dequantise(const Matrix& matrix) {
  const std::size_t padded = static_cast<std::size_t>(matrix.blocks()) * kBlock;
  std::vector<float> row(padded), out(static_cast<std::size_t>(matrix.n) * matrix.k);
  for (int i = 0; i < matrix.n; ++i) {
    for (int b = 0; b < matrix.blocks(); ++b)
      unpack_row(matrix.format, matrix.tile(i / kLanes), b, i % kLanes, row.data() + b * kBlock, 1);
    std::copy_n(row.data(), matrix.k, out.data() + static_cast<std::size_t>(i) * matrix.k);
  }
  return to_numpy(std::move(out), {static_cast<std::size_t>(matrix.n), static_cast<std::size_t>(matrix.k)});
}

// x times the matrix, as the plan would do it; for tests and benchmarks.
class TimedProduct {
 public:
  TimedProduct(const Matrix& matrix, const Kernels& kernels, FloatRows x, bool int8)
      : out(x.shape(0) * matrix.n), rows_(static_cast<int>(x.shape(0))), stride_(matrix.n) {
    if (x.shape(1) != static_cast<std::size_t>(matrix.k))
      throw std::invalid_argument("matmul: x has a wrong width");
    if (int8 && !is_quantised(matrix.format))
      throw std::invalid_argument("int8 activations need a quantised matrix");
    in_.allocate(rows_, matrix.k, true);
    in_.quant.rows = rows_;
    in_.quant.most = kernels.most_rows;
    for (int r = 0; r < rows_; ++r) {
      std::copy_n(x.data() + static_cast<std::size_t>(r) * matrix.k, matrix.k, in_.row(r));
      kernels.quantise(in_.row(r), in_.stride, in_.quant.row(r));
    }
    function_ = (int8 ? kernels.matmul_int8 : kernels.matmul_float)[static_cast<int>(matrix.format)];
  }
  void run(const Matrix& matrix, Pool& pool) {
    struct Chunk {
      const Stripe* stripe;
      int begin, end;
    };
    std::vector<std::vector<Chunk>> lists;
    for (const Stripe& stripe : matrix.stripes) {
      lists.emplace_back();
      for (int begin = stripe.begin; begin < stripe.end; begin += 4)
        lists.back().push_back({&stripe, begin, std::min(begin + 4, stripe.end)});
    }
    std::vector<Counter> counters(lists.size());
    pool.run([&](int worker) {
      OwnFirst<Chunk> work(lists, counters.data(), worker);
      while (const Chunk* chunk = work.take()) {
        Matmul job = matmul_of(matrix, *chunk->stripe);
        job.rows = rows_;
        job.x = in_.data.get();
        job.x_stride = in_.stride;
        job.quant = in_.quant;
        job.out = out.data();
        job.out_stride = stride_;
        function_(job, chunk->begin, chunk->end);
      }
    });
  }
  std::vector<float> out;

 private:
  Buffer in_;
  const int rows_;
  const std::size_t stride_;
  void (*function_)(const Matmul&, int, int);
};

Array<float> product(const Matrix& matrix, Pool& pool, FloatRows x, const std::string& isa, bool int8) {
  TimedProduct task(matrix, select_kernels(isa), x, int8);
  {
    const WithoutGil release;
    task.run(matrix, pool);
  }
  const std::size_t rows = x.shape(0), n = matrix.n;
  return to_numpy(std::move(task.out), {rows, n});
}

// Seconds per product. Streamed: copies of the matrix take turns until they exceed any cache.
std::vector<double> time_product(const Matrix& matrix, Pool& pool, FloatRows x, const std::string& isa,
                                 bool int8, int repeats, bool streamed) {
  constexpr std::size_t kStreamed = std::size_t{256} << 20;
  TimedProduct task(matrix, select_kernels(isa), x, int8);
  const std::size_t bytes = packed_bytes(matrix.format, matrix.n, matrix.k);
  const int num_copies = streamed ? static_cast<int>(std::min<std::size_t>(1024, 1 + kStreamed / bytes)) : 1;
  const auto arena = std::make_shared<Arena>(num_copies * bytes, static_cast<int>(matrix.stripes.size()));
  std::vector<Matrix> copies(num_copies, matrix);
  for (Matrix& copy : copies) {
    copy.arena = arena;
    for (std::size_t s = 0; s < copy.stripes.size(); ++s) {
      Stripe& stripe = copy.stripes[s];
      const std::size_t size = (stripe.end - stripe.begin) * matrix.tile_bytes;
      stripe.data = arena->allocate(static_cast<int>(s), size);
      std::memcpy(stripe.data, matrix.stripes[s].data, size);
    }
  }
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    task.run(copies[i % num_copies], pool);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return seconds;
}

}  // namespace

void bind_matrix(nb::module_& m) {
  m.def(
      "packed_bytes",
      [](const std::string& format, int n, int k) { return packed_bytes(format_named(format), n, k); },
      "format"_a, "n"_a, "k"_a, "Bytes that a matrix takes in an arena.");
  nb::class_<Arena>(m, "Arena", "Memory for matrices, handed out front to back: one stream per worker.")
      .def(nb::init<std::size_t, int>(), "num_bytes_per_stream"_a, "num_streams"_a);
  nb::class_<Matrix>(m, "Matrix", "A weight matrix of n outputs by k inputs, repacked into tiles.")
      .def_static(
          "pack", &make_matrix, "pool"_a, "format"_a, "n"_a, "k"_a, "data"_a, "order"_a.none() = nb::none(),
          "arena"_a.none() = nb::none(),
          "order: which row of the data becomes output i. arena: where it shall lie; default: by itself.")
      .def_ro("n", &Matrix::n)
      .def_ro("k", &Matrix::k)
      .def_prop_ro("num_bytes", [](const Matrix& matrix) { return matrix.tile_bytes * matrix.tiles(); })
      .def_prop_ro("format", [](const Matrix& matrix) { return std::string(info(matrix.format).name); })
      .def("dequantise", &dequantise, "All values, float32[n, k].")
      .def("matmul", &product, "pool"_a, "x"_a, "isa"_a = "", "int8"_a = true,
           "x float32[m, k] -> float32[m, n].")
      .def("time_matmul", &time_product, "pool"_a, "x"_a, "isa"_a = "", "int8"_a = true, "repeats"_a = 20,
           "streamed"_a = true,
           "Seconds per product; streamed: the weights come from memory, else from whatever cache holds "
           "them.");
}
