// Rows of logits and the filters of `choose`: top-k and top-p keep a prefix of the order "value descending,
// then id ascending". Nothing is sorted: a prefix is found by selection, and only near where it ends.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "choose/math.hpp"
#include "isa/kernels.hpp"

namespace ga::choosing {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Candidate {
  double value;
  int64_t weight;
  size_t id;
};

// The order of the filters: value descending, then id ascending.
inline bool precedes(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

// What the filters leave is a prefix of the order; this is its last token. By default everything is left.
struct Cutoff {
  double value = -kInfinity;
  size_t last_id = std::numeric_limits<size_t>::max();
  bool keeps(double other, size_t id) const { return other > value || (other == value && id <= last_id); }
};

// Memory that a thread keeps from row to row.
struct Scratch {
  std::vector<double> adjusted;
  std::vector<double> block_max;
  std::vector<double> sorted_max;
  std::vector<Candidate> candidates;
  std::vector<double> distances;
  std::vector<int64_t> weights;
  std::vector<int32_t> buckets;
};

inline Scratch& scratch() {
  thread_local Scratch memory;
  return memory;
}

inline void block_maxima(const Kernels& kernels, const float* values, size_t size, double* maxima) {
  kernels.block_maxima(values, size, maxima);
}
inline void block_maxima(const Kernels& kernels, const double* values, size_t size, double* maxima) {
  kernels.block_maxima_double(values, size, maxima);
}
inline double sum_exp(const Kernels& kernels, const float* values, size_t n, double maximum, double scale) {
  return static_cast<double>(kernels.sum_exp(values, static_cast<int>(n), maximum, scale));
}
inline double sum_exp(const Kernels& kernels, const double* values, size_t n, double maximum, double scale) {
  return static_cast<double>(kernels.sum_exp_double(values, static_cast<int>(n), maximum, scale));
}

// A row of finite float logits, or of adjusted double logits, which may be -inf.
template <class Value>
struct Row {
  const Kernels* kernels;
  const Value* values;
  size_t size;
  double maximum = -kInfinity;
  size_t arg_max = 0;
  bool finite = true;  // else the rest says nothing
  double inverse_temperature = 1.0;
  const std::vector<double>* block_max = nullptr;

  size_t num_blocks() const { return (size + kScanBlock - 1) / kScanBlock; }
  size_t block_end(size_t block) const { return std::min(size, (block + 1) * kScanBlock); }
  double value(size_t id) const { return static_cast<double>(values[id]); }
  double distance(double value) const { return (value - maximum) * inverse_temperature; }
};

template <class Value>
Row<Value> scan(const Kernels& kernels, const Value* values, size_t size) {
  Row<Value> row{&kernels, values, size};
  std::vector<double>& block_max = scratch().block_max;
  block_max.resize(row.num_blocks());
  block_maxima(kernels, values, size, block_max.data());
  size_t best_block = 0;
  for (size_t block = 0; block < block_max.size(); ++block) {
    row.finite &= block_max[block] == block_max[block];  // not NaN
    if (block_max[block] > row.maximum) {
      row.maximum = block_max[block];
      best_block = block;
    }
  }
  if (!row.finite) return row;
  row.arg_max = best_block * kScanBlock;
  while (row.maximum > -kInfinity && !(row.value(row.arg_max) == row.maximum)) ++row.arg_max;
  row.block_max = &block_max;
  return row;
}

// The first k tokens of the order, in any order. The k-th largest block maximum bounds them from below.
template <class Value>
std::vector<Candidate>& top_k_of(const Row<Value>& row, size_t k) {
  const std::vector<double>& block_max = *row.block_max;
  double floor = std::numeric_limits<double>::lowest();  // -inf is never kept
  if (k <= block_max.size()) {
    std::vector<double>& sorted = scratch().sorted_max;
    sorted = block_max;
    std::nth_element(sorted.begin(), sorted.begin() + (k - 1), sorted.end(), std::greater<>());
    floor = std::max(floor, sorted[k - 1]);
  }
  std::vector<Candidate>& list = scratch().candidates;
  list.clear();
  for (size_t block = 0; block < block_max.size(); ++block) {
    if (block_max[block] < floor) continue;
    for (size_t id = block * kScanBlock; id < row.block_end(block); ++id)
      if (row.value(id) >= floor) list.push_back({row.value(id), 0, id});
  }
  if (list.size() > k) {
    std::nth_element(list.begin(), list.begin() + (k - 1), list.end(), precedes);
    list.resize(k);
  }
  return list;
}

// The last token of the shortest prefix for which base + its weights reach the target (the whole list does).
inline Cutoff nucleus_of(std::vector<Candidate>& list, int64_t base, double target) {
  size_t low = 0, high = list.size();
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    std::nth_element(list.begin() + low, list.begin() + middle, list.begin() + high, precedes);
    int64_t sum = base;
    for (size_t i = low; i < middle; ++i) sum += list[i].weight;
    if (static_cast<double>(sum) >= target) {
      high = middle;
    } else {
      low = middle;
      base = sum;
    }
  }
  return {list[low].value, list[low].id};
}

// The weight of each candidate; their sum.
template <class Value>
int64_t weigh_candidates(const Row<Value>& row, std::vector<Candidate>& list) {
  Scratch& memory = scratch();
  const size_t padded = (list.size() + 7) / 8 * 8;
  memory.distances.assign(padded, 0.0);
  memory.weights.resize(padded);
  memory.buckets.resize(padded);
  for (size_t i = 0; i < list.size(); ++i) memory.distances[i] = row.distance(list[i].value);
  row.kernels->weigh(memory.distances.data(), static_cast<int>(padded), memory.weights.data(),
                     memory.buckets.data());
  int64_t sum = 0;
  for (size_t i = 0; i < list.size(); ++i) sum += list[i].weight = memory.weights[i];
  return sum;
}

template <class Value>
Cutoff top_k_cutoff(const Row<Value>& row, size_t k, double top_p) {
  std::vector<Candidate>& list = top_k_of(row, k);
  if (top_p < 1.0) return nucleus_of(list, 0, top_p * static_cast<double>(weigh_candidates(row, list)));
  const Candidate last = *std::max_element(list.begin(), list.end(), precedes);
  return {last.value, last.id};
}

// Top-p over a whole row: weights are summed per bucket of distance, so that only the tokens of the one
// bucket in which the sum reaches the target have to be put in order.
inline constexpr size_t kNumBuckets = static_cast<size_t>(-kWeightFloor) * kBucketsPerUnit + 1;
using Histogram = std::array<int64_t, kNumBuckets>;

// Weights and buckets of one block of a row.
struct WeighedBlock {
  size_t begin, size;
  std::array<int64_t, kScanBlock> weights;
  std::array<int32_t, kScanBlock> buckets;

  template <class Value>
  WeighedBlock(const Row<Value>& row, size_t block)
      : begin(block * kScanBlock), size(row.block_end(block) - begin) {
    std::array<double, kScanBlock> distances{};
    for (size_t i = 0; i < size; ++i) distances[i] = row.distance(row.value(begin + i));
    row.kernels->weigh(distances.data(), static_cast<int>(size), weights.data(), buckets.data());
  }
};

template <class Value>
Histogram weigh(const Row<Value>& row) {
  std::array<Histogram, 4> sums{};  // four, since adding twice to one place in a row would stall
  for (size_t block = 0; block < row.num_blocks(); ++block) {
    if (row.distance((*row.block_max)[block]) < kWeightFloor) continue;
    const WeighedBlock weighed(row, block);
    for (size_t i = 0; i < weighed.size; ++i)
      sums[i % 4][static_cast<size_t>(weighed.buckets[i])] += weighed.weights[i];
  }
  for (size_t i = 0; i < kNumBuckets; ++i) sums[0][i] += sums[1][i] + sums[2][i] + sums[3][i];
  return sums[0];
}

// Where top-p ends, by the exact weight of every token.
template <class Value>
Cutoff exact_top_p_cutoff(const Row<Value>& row, double top_p) {
  const Histogram sums = weigh(row);
  int64_t total = 0, base = 0;
  for (int64_t sum : sums) total += sum;
  const double target = top_p * static_cast<double>(total);
  int32_t crossing = 0;
  for (; static_cast<double>(base + sums[static_cast<size_t>(crossing)]) < target; ++crossing)
    base += sums[static_cast<size_t>(crossing)];

  std::vector<Candidate>& boundary = scratch().candidates;
  boundary.clear();
  const double reach = -(crossing + 1.0) / kBucketsPerUnit;  // no token of the bucket lies further
  for (size_t block = 0; block < row.num_blocks(); ++block) {
    if (row.distance((*row.block_max)[block]) < reach) continue;
    const WeighedBlock weighed(row, block);
    for (size_t i = 0; i < weighed.size; ++i) {
      const size_t id = weighed.begin + i;
      if (weighed.buckets[i] == crossing) boundary.push_back({row.value(id), weighed.weights[i], id});
    }
  }
  return nucleus_of(boundary, base, target);
}

// How far the sum of all blocks may be off, as a share of it. Rounding a distance (at most 29) to single
// precision and multiplying it by log2(e) changes its weight by at most 4e-6, exp by 2e-7, twelve additions
// one after the other by 8e-7. Tokens below kWeightFloor count as exp(kWeightFloor), and exact weights are
// whole multiples of 2^-40: for a million tokens 1e-6 together, as the likeliest weighs 1.
inline constexpr double kApproximation = 1e-5;
inline constexpr size_t kMostApproximated = size_t{1} << 20;
// Tokens less likely than this (log, over the likeliest) are seldom among those that top-p keeps.
inline constexpr double kUsualFloor = -7.0;

// The same, found without weighing every token, where that is certain: the likely tokens are weighed exactly,
// all of them roughly, and the rough sum leaves no doubt where the nucleus ends.
template <class Value>
bool quick_top_p_cutoff(const Row<Value>& row, double top_p, Cutoff& cutoff) {
  if (row.size > kMostApproximated) return false;
  std::vector<Candidate>& likely = scratch().candidates;
  likely.clear();
  double rough = 0.0;
  for (size_t block = 0; block < row.num_blocks(); ++block) {
    const double reach = row.distance((*row.block_max)[block]);
    if (reach < kWeightFloor) continue;
    const size_t begin = block * kScanBlock, n = row.block_end(block) - begin;
    rough += sum_exp(*row.kernels, row.values + begin, n, row.maximum, row.inverse_temperature);
    if (reach < kUsualFloor) continue;
    for (size_t i = 0; i < n; ++i) {
      const double distance = row.distance(row.value(begin + i));
      if (!(distance >= kUsualFloor)) continue;
      likely.push_back({row.value(begin + i), 0, begin + i});
    }
  }
  const int64_t sum = weigh_candidates(row, likely);
  const double least = top_p * (rough * (1.0 - kApproximation) * 0x1p40);
  const double most = top_p * (rough * (1.0 + kApproximation) * 0x1p40);
  if (static_cast<double>(sum) < most) return false;  // it reaches further
  cutoff = nucleus_of(likely, 0, least);
  const Cutoff last = nucleus_of(likely, 0, most);
  return cutoff.value == last.value && cutoff.last_id == last.last_id;
}

template <class Value>
Cutoff top_p_cutoff(const Row<Value>& row, double top_p) {
  Cutoff cutoff;
  return quick_top_p_cutoff(row, top_p, cutoff) ? cutoff : exact_top_p_cutoff(row, top_p);
}

}  // namespace ga::choosing
