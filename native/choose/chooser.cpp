#include "choose/chooser.hpp"

#include <algorithm>
#include <bit>

#include "choose/filters.hpp"
#include "choose/math.hpp"

namespace ga {
namespace {

using choosing::Cutoff;
using choosing::kInfinity;
using choosing::kScanBlock;
using choosing::Noise;
using choosing::Row;
using choosing::scratch;

constexpr double kBannedBias = -100.0;
constexpr double kMaxLogit = 1e300;

// The running winner of distance + noise.
struct Best {
  double score;
  size_t id;
  bool offer(double challenger, size_t challenger_id) {
    if (!(challenger > score || (challenger == score && challenger_id < id))) return false;
    score = challenger;
    id = challenger_id;
    return true;
  }
};

// The arg max of distance + noise over the tokens that the cutoff keeps and whose distance is at least
// `floor`. Starts from the most likely token, so that in most blocks no hash comes near the winner so far.
template <class Value>
size_t sample(const Row<Value>& row, const Noise& noise, Cutoff cutoff, double floor) {
  Best best{Noise::gumbel(noise.hash(row.arg_max)), row.arg_max};
  for (size_t block = 0; block < row.num_blocks(); ++block) {
    const double block_max = (*row.block_max)[block];
    const double reach = row.distance(block_max);
    if (block_max < cutoff.value || reach < floor || best.score - reach > Noise::kLargest) continue;
    uint64_t bar = Noise::bar(best.score - reach);
    for (size_t id = block * kScanBlock; id < row.block_end(block); ++id) {
      const uint64_t hash = noise.hash(id);
      if (hash < bar) [[likely]]
        continue;
      const double value = row.value(id), distance = row.distance(value);
      if (!cutoff.keeps(value, id) || distance < floor) continue;  // keeps() refuses NaN
      if (best.offer(distance + Noise::gumbel(hash), id)) bar = Noise::bar(best.score - reach);
    }
  }
  return best.id;
}

void ban_all_but(const uint32_t* mask, std::vector<double>& values) {
  for (size_t start = 0; start < values.size(); start += 32) {
    const uint32_t word = mask[start / 32];
    if (word == UINT32_MAX) continue;
    const size_t end = std::min(values.size(), start + 32);
    if (word == 0) {
      std::fill(values.begin() + start, values.begin() + end, -kInfinity);
      continue;
    }
    for (size_t id = start; id < end; ++id)
      if ((word >> (id - start) & 1) == 0) values[id] = -kInfinity;
  }
}

}  // namespace

uint32_t& TokenCounts::slot_of(int32_t token) {
  const size_t mask = slots_.size() - 1;
  size_t i = (static_cast<uint32_t>(token) * 0x9E3779B1u >> 7) & mask;
  while (slots_[i] != 0 && entries_[slots_[i] - 1].id != token) i = (i + 1) & mask;
  return slots_[i];
}

void TokenCounts::add(int32_t token, bool is_output) {
  if (2 * entries_.size() >= slots_.size()) {
    slots_.assign(std::max<size_t>(64, 4 * slots_.size()), 0);
    for (uint32_t i = 0; i < entries_.size(); ++i) slot_of(entries_[i].id) = i + 1;
  }
  uint32_t& slot = slot_of(token);
  if (slot == 0) {
    entries_.push_back({token, 0, 0});
    slot = static_cast<uint32_t>(entries_.size());
  }
  ++entries_[slot - 1].in_history;
  entries_[slot - 1].in_output += is_output ? 1 : 0;
  ++num_tokens_;
}

void TokenCounts::remove(int32_t token, bool is_output) {
  Entry& entry = entries_[slot_of(token) - 1];
  --entry.in_history;
  entry.in_output -= is_output ? 1 : 0;
  --num_tokens_;
}

Chooser::Chooser(ChoiceParams params, size_t prompt_length)
    : params_(std::move(params)), prompt_length_(prompt_length) {
  greedy_ = params_.temperature < 1e-4 || params_.top_k == 1;
  penalised_ = params_.repetition_penalty != 1.0 || params_.frequency_penalty != 0.0 ||
               params_.presence_penalty != 0.0;
}

void Chooser::sync(const int32_t* history, size_t n) {
  if (!penalised_) {
    length_ = n;
    return;
  }
  const size_t known = std::min(n, length_);
  const size_t same = std::mismatch(history, history + known, history_.begin()).first - history;
  while (length_ > same) pop();
  while (length_ < n) push(history[length_]);
}

void Chooser::push(int32_t token) {
  if (penalised_) {
    history_.push_back(token);
    if (token >= 0) counts_.add(token, length_ >= prompt_length_);
  }
  ++length_;
}

void Chooser::pop() {
  --length_;
  const int32_t token = history_.back();
  history_.pop_back();
  if (token >= 0) counts_.remove(token, length_ >= prompt_length_);
}

bool Chooser::bans_eos() const {
  const size_t num_output = length_ > prompt_length_ ? length_ - prompt_length_ : 0;
  return !params_.eos_ids.empty() && static_cast<int64_t>(num_output) < params_.min_tokens;
}

bool Chooser::is_adjusting() const { return !counts_.empty() || !params_.bias.empty() || bans_eos(); }

// False where a logit is not finite.
bool Chooser::adjust(const float* logits, size_t vocab, const uint32_t* mask,
                     std::vector<double>& out) const {
  constexpr uint32_t kExponent = 0x7f800000u;  // all its bits are set where a number is not finite
  out.resize(vocab);
  uint32_t found = 0;
  for (size_t i = 0; i < vocab; ++i) {
    found |= (std::bit_cast<uint32_t>(logits[i]) & kExponent) == kExponent;
    out[i] = static_cast<double>(logits[i]);
  }
  if (found != 0) return false;
  for (const TokenCounts::Entry& seen : counts_.entries()) {
    if (seen.in_history == 0 || static_cast<size_t>(seen.id) >= vocab) continue;
    double& value = out[static_cast<size_t>(seen.id)];
    value = value > 0.0 ? value / params_.repetition_penalty : value * params_.repetition_penalty;
    if (seen.in_output > 0)
      value = value - (params_.frequency_penalty * seen.in_output + params_.presence_penalty);
    value = std::min(value, kMaxLogit);
  }
  for (const auto& [id, bias] : params_.bias) {
    if (id < 0 || static_cast<size_t>(id) >= vocab) continue;
    double& value = out[static_cast<size_t>(id)];
    value = bias <= kBannedBias ? -kInfinity : std::min(value + bias, kMaxLogit);
  }
  if (bans_eos())
    for (int32_t id : params_.eos_ids)
      if (id >= 0 && static_cast<size_t>(id) < vocab) out[static_cast<size_t>(id)] = -kInfinity;
  if (mask != nullptr) ban_all_but(mask, out);
  return true;
}

template <class Value>
int32_t Chooser::decide(const Kernels& kernels, const Value* values, size_t vocab) const {
  Row<Value> row = choosing::scan(kernels, values, vocab);
  if (!row.finite) return kNotFinite;
  if (row.maximum == -kInfinity) return kNotAllowed;  // all tokens are banned
  if (greedy_) return static_cast<int32_t>(row.arg_max);
  row.inverse_temperature = 1.0 / params_.temperature;
  const Noise noise(params_.seed, params_.stream, length_);
  const double floor = params_.min_p > 0.0 ? choosing::log(params_.min_p) : -kInfinity;
  Cutoff cutoff;
  if (params_.top_k > 0)
    cutoff = choosing::top_k_cutoff(row, static_cast<size_t>(params_.top_k), params_.top_p);
  else if (params_.top_p < 1.0)
    cutoff = choosing::top_p_cutoff(row, params_.top_p);
  return static_cast<int32_t>(sample(row, noise, cutoff, floor));
}

int32_t Chooser::choose(const Kernels& kernels, const float* logits, size_t vocab,
                        const uint32_t* mask) const {
  if (vocab == 0) return 0;
  if (!is_adjusting() && (mask == nullptr || greedy_)) {
    const int32_t best = decide(kernels, logits, vocab);
    // The best of all is the best of those allowed, if it is one of them: mostly it is.
    if (mask == nullptr || best < 0 || allows(mask, static_cast<size_t>(best))) return best;
  }
  std::vector<double>& adjusted = scratch().adjusted;
  if (!adjust(logits, vocab, mask, adjusted)) return kNotFinite;
  const int32_t best = decide(kernels, adjusted.data(), vocab);
  return best == kNotAllowed && mask == nullptr ? 0 : best;
}

}  // namespace ga
