// guessahead._native.Chooser: the chooser by itself, for tests and for engines that bring their own logits.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/arrays.hpp"
#include "bindings/bind.hpp"
#include "choose/chooser.hpp"
#include "choose/filters.hpp"
#include "choose/math.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void construct(ga::Chooser* self, double temperature, int32_t top_k, double top_p, double min_p,
               double repetition_penalty, double frequency_penalty, double presence_penalty,
               std::vector<std::pair<int32_t, double>> logit_bias, std::vector<int32_t> eos_ids,
               int64_t min_tokens, uint64_t seed, uint32_t stream, size_t prompt_length) {
  ga::ChoiceParams params{temperature,
                          top_k,
                          top_p,
                          min_p,
                          repetition_penalty,
                          frequency_penalty,
                          presence_penalty,
                          std::move(logit_bias),
                          std::move(eos_ids),
                          min_tokens,
                          seed,
                          stream};
  new (self) ga::Chooser(std::move(params), prompt_length);
}

int32_t choose(const ga::Chooser& self, Vector<float> logits, const std::string& isa,
               std::optional<Vector<uint32_t>> mask) {
  if (logits.size() == 0) throw nb::value_error("choose: the row of logits is empty");
  if (mask && mask->size() * 32 < logits.size()) throw nb::value_error("choose: the mask is too short");
  return self.choose(ga::select_kernels(isa), logits.data(), logits.size(), mask ? mask->data() : nullptr);
}

std::vector<double> gumbel_noise(uint64_t seed, uint32_t stream, uint64_t position,
                                 Vector<int32_t> token_ids) {
  const ga::choosing::Noise noise(seed, stream, position);
  std::vector<double> result;
  for (size_t i = 0; i < token_ids.size(); ++i)
    result.push_back(ga::choosing::Noise::gumbel(noise.hash(static_cast<uint64_t>(token_ids.data()[i]))));
  return result;
}

std::vector<int64_t> softmax_weights(Vector<double> distances, const std::string& isa) {
  const size_t n = distances.size(), padded = (n + 7) / 8 * 8;
  std::vector<double> from(distances.data(), distances.data() + n);
  from.resize(padded);
  std::vector<int64_t> weights(padded);
  std::vector<int32_t> buckets(padded);
  ga::select_kernels(isa).weigh(from.data(), static_cast<int>(padded), weights.data(), buckets.data());
  weights.resize(n);
  return weights;
}

// The last token that top-p keeps; and whether the quick way was certain of it.
std::pair<size_t, bool> nucleus(Vector<float> logits, double temperature, double top_p,
                                const std::string& isa) {
  if (logits.size() == 0) throw nb::value_error("nucleus: the row of logits is empty");
  ga::choosing::Row<float> row = ga::choosing::scan(ga::select_kernels(isa), logits.data(), logits.size());
  row.inverse_temperature = 1.0 / temperature;
  ga::choosing::Cutoff quick;
  const bool certain = ga::choosing::quick_top_p_cutoff(row, top_p, quick);
  const ga::choosing::Cutoff cutoff = certain ? quick : ga::choosing::exact_top_p_cutoff(row, top_p);
  return {cutoff.last_id, certain};
}

}  // namespace

void bind_chooser(nb::module_& m) {
  nb::class_<ga::Chooser>(m, "Chooser", "`choose` along one path; arguments from engines/native/choosing.py.")
      .def("__init__", &construct, nb::kw_only(), "temperature"_a, "top_k"_a, "top_p"_a, "min_p"_a,
           "repetition_penalty"_a, "frequency_penalty"_a, "presence_penalty"_a, "logit_bias"_a, "eos_ids"_a,
           "min_tokens"_a, "seed"_a, "stream"_a, "prompt_length"_a)
      .def("choose", &choose, "logits"_a, "isa"_a = "", "mask"_a = nb::none(),
           "The token that follows history + pushed; logits: float32[vocab]. mask: uint32[words], packed:\n"
           "the tokens that are allowed; None = all.")
      .def(
          "sync",
          [](ga::Chooser& self, Vector<int32_t> history) { self.sync(history.data(), history.size()); },
          "history"_a, "The history is this one from now on, int32[n]; costs as much as it differs.")
      .def("push", &ga::Chooser::push, "token"_a, "Append a token to the path.");
  // The numeric parts by themselves, for the tests that they equal the twin's to the bit.
  m.def("nucleus", &nucleus, "logits"_a, "temperature"_a, "top_p"_a, "isa"_a = "");
  m.def("gumbel_noise", &gumbel_noise, "seed"_a, "stream"_a, "position"_a, "token_ids"_a);
  m.def("softmax_weights", &softmax_weights, "distances"_a, "isa"_a = "");
}
