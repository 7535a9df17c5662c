#include "draft/likeliest.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "choose/filters.hpp"

namespace ga {
Likeliest likeliest(const Kernels& kernels, std::span<const float> logits, std::size_t count) {
  const choosing::Row<float> row = choosing::scan(kernels, logits.data(), logits.size());
  const double most = row.maximum;
  if (count == 0 || !row.finite) return {};
  std::vector<std::pair<float, std::int32_t>> top;  // descending
  float least = -std::numeric_limits<float>::infinity();
  double total = 0.0;
  for (std::size_t block = 0; block < row.num_blocks(); ++block) {
    const double block_max = (*row.block_max)[block];
    const std::size_t begin = block * choosing::kScanBlock, end = row.block_end(block);
    if (block_max - most >= choosing::kWeightFloor)
      total += choosing::sum_exp(kernels, row.values + begin, end - begin, most, 1.0);
    if (!(block_max > static_cast<double>(least))) continue;
    for (std::size_t i = begin; i < end; ++i) {
      const float value = logits[i];
      if (!(value > least)) continue;
      auto place = top.end();
      while (place != top.begin() && value > (place - 1)->first) --place;
      top.insert(place, {value, static_cast<std::int32_t>(i)});
      if (top.size() > count) top.pop_back();
      if (top.size() == count) least = top.back().first;
    }
  }
  Likeliest result;
  for (const auto& [value, index] : top) {
    result.indices.push_back(index);
    result.probabilities.push_back(std::min(1.0, std::exp(static_cast<double>(value) - most) / total));
  }
  return result;
}

// In the order of log(probability) + trust * temperature * noise. Those values are Gumbel distributed around
// the logits, so the tokens that are not listed weigh E[exp(trust * temperature * noise)] each. (Much noise
// makes that infinite: then all of it is softened, which keeps the order.)
std::vector<std::pair<std::int32_t, double>> likeliest_winners(const Kernels& kernels,
                                                               std::span<const float> logits,
                                                               std::span<const std::int32_t> token_ids,
                                                               std::size_t count, double trust,
                                                               const Sampling& sampling) {
  constexpr std::size_t kConsidered = 32;
  constexpr double kMostNoise = 0.95;
  const auto [indices, probabilities] = likeliest(kernels, logits, kConsidered);
  const choosing::Noise noise(sampling.seed, sampling.stream, sampling.position);
  const double softening = std::max(1.0, trust * sampling.temperature / kMostNoise);
  const double scale = trust * sampling.temperature / softening;
  // What top-k, top-p and min-p leave, roughly: the target decides by its own logits.
  std::size_t kept = indices.size();
  if (sampling.top_k > 0) kept = std::min(kept, static_cast<std::size_t>(sampling.top_k));
  std::vector<double> shares(kept);  // at the temperature, over that of the likeliest
  double enough = 0.0, listed = 0.0, reached = 0.0, total = 0.0;
  for (std::size_t i = 0; i < kept; ++i) {
    shares[i] = std::pow(probabilities[i] / probabilities[0], 1.0 / sampling.temperature);
    enough += sampling.top_p * shares[i];
    listed += probabilities[i];
  }
  std::vector<std::pair<double, std::int32_t>> winners;
  for (std::size_t i = 0; i < kept && reached < enough && shares[i] >= sampling.min_p; ++i) {
    reached += shares[i];
    const std::int32_t token = token_ids.data()[indices[i]];
    const double gumbel = choosing::Noise::gumbel(noise.hash(static_cast<std::uint64_t>(token)));
    const double probability =
        softening == 1.0 ? probabilities[i] : std::pow(probabilities[i], 1.0 / softening);
    winners.emplace_back(-probability * std::exp(scale * gumbel), token);
    total -= winners.back().first;
  }
  if (sampling.top_k == 0)
    total += std::pow(std::max(0.0, 1.0 - listed), 1.0 / softening) * std::tgamma(1.0 - scale);
  std::sort(winners.begin(), winners.end());
  std::vector<std::pair<std::int32_t, double>> result;
  for (std::size_t i = 0; i < std::min(count, winners.size()); ++i)
    result.emplace_back(winners[i].second, -winners[i].first / total);
  return result;
}

}  // namespace ga
