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

#include "choose_math.hpp"

namespace ga::choosing {

inline constexpr size_t kScanBlock =
    128;  // ids are scanned in blocks, and a block that cannot matter is skipped
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
};

inline Scratch& scratch() {
  thread_local Scratch memory;
  return memory;
}

template <class Value>
double maximum_of(const Value* x, size_t n) {
  constexpr size_t kLanes = 16;
  std::array<Value, kLanes> lane;
  lane.fill(-std::numeric_limits<Value>::infinity());
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (size_t j = 0; j < kLanes; ++j) lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
  Value maximum = -std::numeric_limits<Value>::infinity();
  for (Value value : lane) maximum = value > maximum ? value : maximum;
  for (; i < n; ++i) maximum = x[i] > maximum ? x[i] : maximum;  // a NaN is never greater
  return static_cast<double>(maximum);
}

// A row of float or adjusted double logits; NaN stands for -inf.
template <class Value>
struct Row {
  const Value* values;
  size_t size;
  double maximum = -kInfinity;
  size_t arg_max = 0;
  double inverse_temperature = 1.0;
  const std::vector<double>* block_max = nullptr;

  size_t num_blocks() const { return (size + kScanBlock - 1) / kScanBlock; }
  size_t block_end(size_t block) const { return std::min(size, (block + 1) * kScanBlock); }
  double value(size_t id) const { return static_cast<double>(values[id]); }
  double distance(double value) const { return (value - maximum) * inverse_temperature; }
};

template <class Value>
Row<Value> scan(const Value* values, size_t size) {
  Row<Value> row{values, size};
  std::vector<double>& block_max = scratch().block_max;
  block_max.resize(row.num_blocks());
  size_t best_block = 0;
  for (size_t block = 0; block < block_max.size(); ++block) {
    const size_t begin = block * kScanBlock;
    block_max[block] = maximum_of(values + begin, row.block_end(block) - begin);
    if (block_max[block] > row.maximum) {
      row.maximum = block_max[block];
      best_block = block;
    }
  }
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

template <class Value>
Cutoff top_k_cutoff(const Row<Value>& row, size_t k, double top_p) {
  std::vector<Candidate>& list = top_k_of(row, k);
  if (top_p < 1.0) {
    int64_t total = 0;
    for (Candidate& candidate : list) {
      candidate.weight = weight(row.distance(candidate.value));
      total += candidate.weight;
    }
    return nucleus_of(list, 0, top_p * static_cast<double>(total));
  }
  const Candidate last = *std::max_element(list.begin(), list.end(), precedes);
  return {last.value, last.id};
}

// Top-p over a whole row: weights are summed per bucket of distance, so that only the tokens of the one
// bucket in which the sum reaches the target have to be put in order.
inline constexpr int32_t kBucketsPerUnit = 32;
inline constexpr size_t kNumBuckets = static_cast<size_t>(-kWeightFloor) * kBucketsPerUnit + 1;
using Histogram = std::array<int64_t, kNumBuckets>;

inline int32_t bucket_of(double distance) {
  const double bounded = distance > kWeightFloor ? distance : kWeightFloor;
  return static_cast<int32_t>(bounded * -kBucketsPerUnit);
}

// Weights and buckets of a block of distances: the one loop that top-p runs over the whole vocabulary, so it
// is compiled for wider vectors, too (choose.cpp). Every operation is rounded by itself in all of them: the
// same bits.
void weigh_block(const double* distances, size_t n, int64_t* weights, int32_t* buckets);

template <class Value>
Histogram weigh(const Row<Value>& row) {
  std::array<Histogram, 4> sums{};  // four, since adding twice to one place in a row would stall
  for (size_t block = 0; block < row.num_blocks(); ++block) {
    if (row.distance((*row.block_max)[block]) < kWeightFloor) continue;
    const size_t begin = block * kScanBlock, n = row.block_end(block) - begin;
    std::array<double, kScanBlock> distances;
    std::array<int64_t, kScanBlock> weights;
    std::array<int32_t, kScanBlock> buckets;
    for (size_t i = 0; i < n; ++i) distances[i] = row.distance(row.value(begin + i));
    weigh_block(distances.data(), n, weights.data(), buckets.data());
    for (size_t i = 0; i < n; ++i) sums[i % 4][static_cast<size_t>(buckets[i])] += weights[i];
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
  for (size_t block = 0; block < row.num_blocks(); ++block) {
    if (bucket_of(row.distance((*row.block_max)[block])) > crossing) continue;
    for (size_t id = block * kScanBlock; id < row.block_end(block); ++id) {
      const double distance = row.distance(row.value(id));
      if (bucket_of(distance) == crossing) boundary.push_back({row.value(id), weight(distance), id});
    }
  }
  return nucleus_of(boundary, base, target);
}

// The sum of exp(distance) over a block, distances below kWeightFloor (and NaN) taken for it, in single
// precision. (choose.cpp)
double approximate_block(const float* values, size_t n, double maximum, double inverse_temperature);
double approximate_block(const double* values, size_t n, double maximum, double inverse_temperature);

// How far the sum of all blocks may be off, as a share of it. Rounding a distance (at most 29) to single
// precision and multiplying it by log2(e) changes its weight by at most 4e-6, the polynomial by 5e-7, eight
// additions one after the other by 5e-7. Tokens below kWeightFloor count as exp(kWeightFloor), and exact
// weights are whole multiples of 2^-40: for a million tokens 1e-6 together, as the likeliest weighs 1.
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
  int64_t sum = 0;
  for (size_t block = 0; block < row.num_blocks(); ++block) {
    const double reach = row.distance((*row.block_max)[block]);
    if (reach < kWeightFloor) continue;
    const size_t begin = block * kScanBlock, n = row.block_end(block) - begin;
    rough += approximate_block(row.values + begin, n, row.maximum, row.inverse_temperature);
    if (reach < kUsualFloor) continue;
    for (size_t i = 0; i < n; ++i) {
      const double distance = row.distance(row.value(begin + i));
      if (!(distance >= kUsualFloor)) continue;
      likely.push_back({row.value(begin + i), weight(distance), begin + i});
      sum += likely.back().weight;
    }
  }
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
