// guessahead._native.Sequence: the cache of a running sequence.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/bind.hpp"
#include "cache/integrity.hpp"
#include "cache/sequence.hpp"
#include "formats/halves.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace ga;

namespace {

// Keys and values of the committed positions of one layer: two arrays [position][head][head_dim].
nb::tuple cached(const Sequence& s, int layer) {
  const CacheShape& shape = s.shape();
  const std::size_t n = s.length(), heads = shape.kv_heads, dim = shape.head_dim;
  std::vector<float> keys(n * heads * dim), values(n * heads * dim);
  const auto at = [&](const std::byte* block, std::size_t i) {
    return shape.half ? half_to_float(reinterpret_cast<const std::uint16_t*>(block)[i])
                      : reinterpret_cast<const float*>(block)[i];
  };
  for (std::size_t p = 0; p < n; ++p) {
    for (std::size_t h = 0; h < heads; ++h) {
      const std::byte* block = s.block(layer, static_cast<int>(h), static_cast<int>(p / kPage));
      for (std::size_t d = 0; d < dim; ++d) {
        keys[(p * heads + h) * dim + d] = at(block, d * kPage + p % kPage);
        values[(p * heads + h) * dim + d] = at(block, (kPage + p % kPage) * dim + d);
      }
    }
  }
  return nb::make_tuple(to_numpy(std::move(keys), {n, heads, dim}),
                        to_numpy(std::move(values), {n, heads, dim}));
}

}  // namespace

void bind_sequence(nb::module_& m) {
  nb::class_<Sequence>(m, "Sequence", "The cache of one running sequence.")
      .def_prop_ro("length", &Sequence::length)
      .def_prop_ro("num_bytes", &Sequence::num_bytes)
      .def("keep", [](Sequence& s, Ints path) { s.keep(path.data(), static_cast<int>(path.size())); })
      .def("rollback", &Sequence::rollback)
      .def("fork", &Sequence::fork)
      .def("cached", &cached, "layer"_a,
           nb::sig("def cached(self, layer: int) -> tuple[numpy.typing.NDArray[numpy.float32], "
                   "numpy.typing.NDArray[numpy.float32]]"),
           "Keys and values of one layer, float32[length, heads, head_dim] each.");
  m.def(
      "check_integrity",
      [](const std::vector<Sequence*>& sequences) {
        check_integrity(std::vector<const Sequence*>(sequences.begin(), sequences.end()));
      },
      "sequences"_a,
      "RuntimeError where pages, lengths and rows contradict each other, or where a page is held by others "
      "than\n"
      "these sequences: give all that there are of a model.");
}
