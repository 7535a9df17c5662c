// guessahead._native.Chooser: the chooser by itself, for tests and for engines that bring their own logits.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "choose.hpp"
#include "choose_filters.hpp"
#include "choose_math.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void construct(ga::Chooser* self, double temperature, int32_t top_k, double top_p, double min_p,
               double repetition_penalty, double frequency_penalty, double presence_penalty,
               std::vector<std::pair<int32_t, double>> logit_bias, std::vector<int32_t> eos_ids,
               int64_t min_tokens, uint64_t seed, uint32_t stream, Vector<int32_t> history,
               size_t prompt_length, std::vector<int32_t> forced) {
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
                          stream,
                          std::move(forced)};
  new (self) ga::Chooser(std::move(params), history.data(), history.size(), prompt_length);
}

int32_t choose(const ga::Chooser& self, Vector<float> logits) {
  if (logits.size() == 0) throw nb::value_error("choose: the row of logits is empty");
  return self.choose(logits.data(), logits.size());
}

std::vector<double> gumbel_noise(uint64_t seed, uint32_t stream, uint64_t position,
                                 Vector<int32_t> token_ids) {
  const ga::choosing::Noise noise(seed, stream, position);
  std::vector<double> result;
  for (size_t i = 0; i < token_ids.size(); ++i)
    result.push_back(ga::choosing::Noise::gumbel(noise.hash(static_cast<uint64_t>(token_ids.data()[i]))));
  return result;
}

std::vector<int64_t> softmax_weights(Vector<double> distances) {
  std::vector<int64_t> result;
  for (size_t i = 0; i < distances.size(); ++i) result.push_back(ga::choosing::weight(distances.data()[i]));
  return result;
}

// The last token that top-p keeps; and whether the quick way was certain of it.
std::pair<size_t, bool> nucleus(Vector<float> logits, double temperature, double top_p) {
  if (logits.size() == 0) throw nb::value_error("nucleus: the row of logits is empty");
  ga::choosing::Row<float> row = ga::choosing::scan(logits.data(), logits.size());
  row.inverse_temperature = 1.0 / temperature;
  ga::choosing::Cutoff quick;
  const bool certain = ga::choosing::quick_top_p_cutoff(row, top_p, quick);
  const ga::choosing::Cutoff cutoff = certain ? quick : ga::choosing::exact_top_p_cutoff(row, top_p);
  return {cutoff.last_id, certain};
}

// exp(x) for x <= 0, to four digits: for confidences, never for what is chosen. (Single precision throughout:
// approximate_block, which is exact to six, takes a third longer.)
float rough_exp(float x) {
  const float t = std::max(x, -80.0f) * 1.44269504f;
  const int whole = static_cast<int>(t) - 1;
  const float f = t - static_cast<float>(whole);
  const float p = 1.0f + f * (0.69314718f + f * (0.24022651f + f * (0.05550411f + f * 0.00961813f)));
  return std::bit_cast<float>((whole + 127) << 23) * p;
}

// The `count` largest logits and their chances, the likeliest first (of equals, the first).
std::pair<std::vector<int32_t>, std::vector<double>> likeliest(Vector<float> logits, size_t count) {
  const float* values = logits.data();
  const size_t n = logits.size();
  if (n == 0) throw nb::value_error("likeliest: the row of logits is empty");
  std::vector<std::pair<float, int32_t>> top;  // descending
  float least = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < n; ++i) {
    if (!(values[i] > least)) continue;
    auto place = top.end();
    while (place != top.begin() && values[i] > (place - 1)->first) --place;
    top.insert(place, {values[i], static_cast<int32_t>(i)});
    if (top.size() > count) top.pop_back();
    if (top.size() == count) least = top.back().first;
  }
  if (top.empty() || !std::isfinite(top.front().first)) return {};
  const float most = top.front().first;
  constexpr size_t kSums = 16;  // side by side, so that the compiler can use vectors
  float sums[kSums] = {};
  size_t i = 0;
  for (; i + kSums <= n; i += kSums)
    for (size_t j = 0; j < kSums; ++j) sums[j] += rough_exp(values[i + j] - most);
  for (; i < n; ++i) sums[0] += rough_exp(values[i] - most);
  const float total = std::accumulate(sums, sums + kSums, 0.0f);
  std::pair<std::vector<int32_t>, std::vector<double>> result;
  for (const auto& [value, index] : top) {
    result.first.push_back(index);
    result.second.push_back(std::min(1.0f, rough_exp(value - most) / total));
  }
  return result;
}

// Who wins where the target adds noise to logits of its own, which those here are like: in the order of
// log(chance) + trust * temperature * noise. Those values are Gumbel distributed around the logits, so the
// tokens that are not listed weigh E[exp(trust * temperature * noise)] each. (Much noise makes that infinite:
// then all of it is softened, which keeps the order.)
std::vector<std::pair<int32_t, double>> likeliest_winners(Vector<float> logits, Vector<int32_t> token_ids,
                                                          size_t count, double trust, double temperature,
                                                          int32_t top_k, double top_p, double min_p,
                                                          uint64_t seed, uint32_t stream, uint64_t position) {
  constexpr size_t kConsidered = 32;
  constexpr double kMostNoise = 0.95;
  if (token_ids.size() != logits.size()) throw nb::value_error("likeliest_winners: one token per logit");
  const auto [indices, chances] = likeliest(logits, kConsidered);
  const ga::choosing::Noise noise(seed, stream, position);
  const double softening = std::max(1.0, trust * temperature / kMostNoise);
  const double scale = trust * temperature / softening;
  // What top-k, top-p and min-p leave, roughly: the target decides by its own logits.
  size_t kept = indices.size();
  if (top_k > 0) kept = std::min(kept, static_cast<size_t>(top_k));
  std::vector<double> shares(kept);  // at the temperature, over that of the likeliest
  double enough = 0.0, listed = 0.0, reached = 0.0, total = 0.0;
  for (size_t i = 0; i < kept; ++i) {
    shares[i] = std::pow(chances[i] / chances[0], 1.0 / temperature);
    enough += top_p * shares[i];
    listed += chances[i];
  }
  std::vector<std::pair<double, int32_t>> winners;
  for (size_t i = 0; i < kept && reached < enough && shares[i] >= min_p; ++i) {
    reached += shares[i];
    const int32_t token = token_ids.data()[indices[i]];
    const double gumbel = ga::choosing::Noise::gumbel(noise.hash(static_cast<uint64_t>(token)));
    const double chance = softening == 1.0 ? chances[i] : std::pow(chances[i], 1.0 / softening);
    winners.emplace_back(-chance * std::exp(scale * gumbel), token);
    total -= winners.back().first;
  }
  if (top_k == 0)
    total += std::pow(std::max(0.0, 1.0 - listed), 1.0 / softening) * std::tgamma(1.0 - scale);
  std::sort(winners.begin(), winners.end());
  std::vector<std::pair<int32_t, double>> result;
  for (size_t i = 0; i < std::min(count, winners.size()); ++i)
    result.emplace_back(winners[i].second, -winners[i].first / total);
  return result;
}

}  // namespace

void bind_choose(nb::module_& m) {
  nb::class_<ga::Chooser>(m, "Chooser",
                          "choose() along one path; arguments from guessahead.sampling.chooser_arguments.")
      .def("__init__", &construct, nb::kw_only(), "temperature"_a, "top_k"_a, "top_p"_a, "min_p"_a,
           "repetition_penalty"_a, "frequency_penalty"_a, "presence_penalty"_a, "logit_bias"_a, "eos_ids"_a,
           "min_tokens"_a, "seed"_a, "stream"_a, "history"_a, "prompt_length"_a, "forced"_a)
      .def("choose", &choose, "logits"_a, "The token that follows history + pushed; logits: float32[vocab].")
      .def("push", &ga::Chooser::push, "token"_a, "Append a token to the path.");
  m.def("likeliest", &likeliest, "logits"_a, "count"_a,
        "The largest logits and their chances (softmax), the likeliest first: (indices, chances); empty where "
        "the largest is not finite.");
  m.def("likeliest_winners", &likeliest_winners, "logits"_a, "token_ids"_a, "count"_a, nb::kw_only(),
        "trust"_a, "temperature"_a, "top_k"_a, "top_p"_a, "min_p"_a, "seed"_a, "stream"_a, "position"_a,
        "The tokens most likely to be sampled by a target whose logits are like these, and which adds the "
        "noise of the position: (token, chance), the likeliest first; empty where the largest logit is not "
        "finite.");
  // The numeric parts by themselves, for the tests that they equal the twin's to the bit.
  m.def("nucleus", &nucleus, "logits"_a, "temperature"_a, "top_p"_a);
  m.def("gumbel_noise", &gumbel_noise, "seed"_a, "stream"_a, "position"_a, "token_ids"_a);
  m.def("softmax_weights", &softmax_weights, "distances"_a);
}
