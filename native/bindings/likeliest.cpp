// guessahead._native.likeliest and likeliest_winners: what a drafter with logits guesses.
#include "draft/likeliest.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "bindings/arrays.hpp"
#include "bindings/bind.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

std::pair<std::vector<std::int32_t>, std::vector<double>> likeliest(ga::Floats logits, std::size_t count) {
  if (logits.size() == 0) throw nb::value_error("likeliest: the row of logits is empty");
  ga::Likeliest found = ga::likeliest(ga::select_kernels(""), {logits.data(), logits.size()}, count);
  return {std::move(found.indices), std::move(found.probabilities)};
}

std::vector<std::pair<std::int32_t, double>> likeliest_winners(ga::Floats logits, ga::Ints token_ids,
                                                               std::size_t count, double trust,
                                                               double temperature, std::int32_t top_k,
                                                               double top_p, double min_p, std::uint64_t seed,
                                                               std::uint32_t stream, std::uint64_t position) {
  if (logits.size() == 0) throw nb::value_error("likeliest: the row of logits is empty");
  if (token_ids.size() != logits.size()) throw nb::value_error("likeliest_winners: one token per logit");
  return ga::likeliest_winners(ga::select_kernels(""), {logits.data(), logits.size()},
                               {token_ids.data(), token_ids.size()}, count, trust,
                               {temperature, top_k, top_p, min_p, seed, stream, position});
}

}  // namespace

void bind_likeliest(nb::module_& m) {
  m.def(
      "likeliest", &likeliest, "logits"_a, "count"_a,
      "The largest logits and their probabilities (softmax), the likeliest first: (indices, probabilities);\n"
      "empty where one is not finite.");
  m.def("likeliest_winners", &likeliest_winners, "logits"_a, "token_ids"_a, "count"_a, nb::kw_only(),
        "trust"_a, "temperature"_a, "top_k"_a, "top_p"_a, "min_p"_a, "seed"_a, "stream"_a, "position"_a,
        "The tokens most likely to be sampled by a target whose logits are like these, and which adds the\n"
        "noise of the position: (token, probability), the likeliest first; empty where a logit is not\n"
        "finite.");
}
