// Buffers of activations.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

#include "isa/kernels.hpp"

namespace ga {

constexpr int round_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

// f32[rows][stride], zero beyond `width`; with `quant`, also its int8 form.
struct Buffer {
  int width = 0;
  std::size_t stride = 0;
  bool compact = false;  // holds only the rows that are chosen for
  std::unique_ptr<float[], void (*)(void*)> data{nullptr,
                                                 std::free};  // pages that no pass touches cost nothing
  std::vector<std::int8_t> q;
  std::vector<float> scales;  // scale, then scaled_sum
  std::vector<std::int16_t> sums;
  QuantRows quant;
  float* row(int r) { return data.get() + r * stride; }
  void allocate(int rows, int width, bool quantised);
};

}  // namespace ga
