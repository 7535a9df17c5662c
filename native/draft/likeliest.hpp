// The likeliest tokens of a drafter's logits, with probabilities: what a drafter guesses.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "isa/kernels.hpp"

namespace ga {

struct Likeliest {
  std::vector<std::int32_t> indices;
  std::vector<double> probabilities;
};

// The `count` largest logits and their softmax, the likeliest first (of equals, the first). Empty where
// one is not finite.
Likeliest likeliest(const Kernels& kernels, std::span<const float> logits, std::size_t count);

// How the target samples, and at which position of which noise stream.
struct Sampling {
  double temperature;
  std::int32_t top_k;
  double top_p, min_p;
  std::uint64_t seed;
  std::uint32_t stream;
  std::uint64_t position;
};

// The tokens most likely to win where a target whose logits are like these adds its noise, with
// probabilities, the likeliest first. trust: how much of the noise decides, as the logits are not the
// target's.
std::vector<std::pair<std::int32_t, double>> likeliest_winners(const Kernels& kernels,
                                                               std::span<const float> logits,
                                                               std::span<const std::int32_t> token_ids,
                                                               std::size_t count, double trust,
                                                               const Sampling& sampling);

}  // namespace ga
