// From a row of logits to one token: the native side of src/guessahead/sampling.py, which defines the rule.
// The same token for every row, to the bit; this side only skips work that cannot matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "isa/kernels.hpp"

namespace ga {

inline constexpr int32_t kNotFinite = -2;   // NOT_FINITE of types/
inline constexpr int32_t kNotAllowed = -3;  // NOT_ALLOWED of types/

// Whether a packed set of tokens (types.Mask) holds one.
inline bool allows(const uint32_t* mask, size_t id) { return (mask[id / 32] >> (id % 32) & 1) != 0; }

// SamplingParams and the fixed part of a Choice. Ranges are checked in Python (sampling.validate).
struct ChoiceParams {
  double temperature = 0.0;
  int32_t top_k = 0;
  double top_p = 1.0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
  double frequency_penalty = 0.0;
  double presence_penalty = 0.0;
  std::vector<std::pair<int32_t, double>> bias;
  std::vector<int32_t> eos_ids;
  int64_t min_tokens = 0;
  uint64_t seed = 0;
  uint32_t stream = 0;
};

// The distinct tokens of a history, and how often each stands there. A small hash table.
class TokenCounts {
 public:
  struct Entry {
    int32_t id;
    int32_t in_history;  // 0 = no more
    int32_t in_output;
  };
  void add(int32_t token, bool is_output);
  void remove(int32_t token, bool is_output);  // one that was added
  bool empty() const { return num_tokens_ == 0; }
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  uint32_t& slot_of(int32_t token);
  std::vector<Entry> entries_;
  size_t num_tokens_ = 0;
  std::vector<uint32_t> slots_;  // 1 + index into entries_, 0 = free; the size is a power of two
};

// Chooses along one path: sync with the history, choose, push what was chosen, choose, ... It lives as long
// as a generation, and holds the history only where a penalty needs it. One thread at a time; scratch memory
// belongs to the thread.
class Chooser {
 public:
  Chooser(ChoiceParams params, size_t prompt_length);
  // The history is this one from now on: tokens that differ from what it holds are taken back, new ones
  // added.
  void sync(const int32_t* history, size_t n);
  // kNotFinite where a logit is not finite. mask: the tokens that are allowed, null = all; kNotAllowed where
  // these are banned.
  int32_t choose(const Kernels& kernels, const float* logits, size_t vocab,
                 const uint32_t* mask = nullptr) const;
  void push(int32_t token);

 private:
  bool bans_eos() const;
  bool is_adjusting() const;
  void pop();
  bool adjust(const float* logits, size_t vocab, const uint32_t* mask, std::vector<double>& out) const;
  template <class Value>
  int32_t decide(const Kernels& kernels, const Value* values, size_t vocab) const;

  ChoiceParams params_;
  bool greedy_;
  bool penalised_;
  size_t length_ = 0;
  size_t prompt_length_;
  std::vector<int32_t> history_;  // empty where no penalty needs it
  TokenCounts counts_;
};

}  // namespace ga
