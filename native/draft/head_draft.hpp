// A whole draft of a draft head in one call: small passes, the likeliest tokens of each, and the stop rule.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "draft/likeliest.hpp"
#include "plan/plan.hpp"

namespace ga {

// When a draft ends: see `StopRule` in types/.
struct StopRule {
  std::vector<double> least_path_probability;
  std::vector<std::vector<double>> calibration;
  double calibrated(double probability, std::size_t depth) const;
  bool goes_on(double path_probability, std::size_t num_guesses) const {
    return num_guesses < least_path_probability.size() &&
           path_probability > least_path_probability[num_guesses];
  }
};

// How the target samples, and how much of its noise decides about tokens of the head (see likeliest_winners).
struct HeadSampling {
  Sampling sampling;  // position: of the first guess
  double trust;
};

struct HeadAsk {
  std::size_t budget;              // most guesses
  std::size_t levels;              // most guesses one after the other
  std::size_t branches;            // children of a guess
  std::size_t width;               // guesses of a level that get children
  double least_sibling;            // a sibling less likely than this is left out
  std::vector<std::int32_t> ends;  // tokens of the target that no guess follows
  std::optional<StopRule> stop;
  std::optional<HeadSampling> sampled;  // absent = greedy
};

// The guesses; a parent precedes its children. parents: -1 = the last committed token.
struct HeadDraft {
  std::vector<std::int32_t> tokens, parents;
  std::vector<float> probabilities;
};

// Reads rows (the target's hidden states at t, the token at t + 1) and guesses after the last of them. The
// sequence holds the rows that were read afterwards. token_ids: the target's id of each of the head.
HeadDraft draft_of_head(Plan& plan, Sequence& sequence, std::span<const std::int32_t> next_ids,
                        std::span<const float> fused, std::span<const std::int32_t> token_ids,
                        const HeadAsk& ask);

}  // namespace ga
