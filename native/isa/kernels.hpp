// The functions that exist once per instruction set, and the jobs that they are given. isa/select.cpp decides
// which variant runs; the variants are compiled from kernels/ in isa/<name>.cpp.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "choose/constants.hpp"
#include "formats/tile.hpp"

// Of the parts of a kernel: GCC leaves what is used often out of line once a file has grown enough, and the
// sums of all rows go through memory then.
#define GA_INLINE [[gnu::always_inline]] static inline

namespace ga {

constexpr int kPage = 64;  // positions per cache page = per attention block

// One row of activations, quantised by itself in blocks of 32, and interleaved with the other rows of its
// group: `step` rows lie together, so that a kernel reaches all of them from one pointer. Block b of the row
// has
//   q            quad j (four consecutive k) at (8 * b + j) * 4 * step, values in [-127, 127]
//   scale        at b * step: value = scale * q
//   scaled_sum   at b * step: scale * (sum of the block's q), for formats with a minimum
//   sums         at 2 * b * step: sums of q over both halves of the block, for formats with an offset
struct QuantRow {
  std::int8_t* q;
  float* scale;
  float* scaled_sum;
  std::int16_t* sums;
  int step;
};

// The same for the rows of a pass, in groups of nearly equal size, at most `most` rows each; group after
// group.
struct QuantRows {
  std::int8_t* q = nullptr;
  float* scale = nullptr;
  float* scaled_sum = nullptr;
  std::int16_t* sums = nullptr;
  std::size_t k = 0;
  int rows = 0, most = 1;

  [[gnu::always_inline]] int groups() const { return (rows + most - 1) / most; }
  [[gnu::always_inline]] int group_start(int group) const { return group * rows / groups(); }
  // Row r from column `first` (a multiple of 32) on.
  [[gnu::always_inline]] QuantRow row(int r, int first = 0) const {
    const int group = ((r + 1) * groups() - 1) / rows, start = group_start(group);
    const int step = group_start(group + 1) - start;
    const std::size_t at = start * k + static_cast<std::size_t>(first) * step;
    return {q + at + 4 * (r - start), scale + at / kBlock + (r - start),
            scaled_sum + at / kBlock + (r - start), sums + at / 16 + 2 * (r - start), step};
  }
};

// out[r][i] (+)= sum over k of x[r][k] * weight[i][k] (+ bias[i]) for the weight tiles [tile_begin,
// tile_end). Ranges begin and end at even tiles, or at the last: a variant may write two tiles at a time.
struct Matmul {
  const std::uint8_t* tiles;  // repacked weight, from tile `first_tile` on
  int first_tile;
  std::size_t tile_bytes;
  int n;           // outputs
  int blocks;      // k / 32
  int rows;        // activation rows
  const float* x;  // f32 route: [rows][x_stride]
  std::size_t x_stride;
  QuantRows quant;  // int8 route
  float* out;       // [rows][out_stride]
  std::size_t out_stride;
  const float* bias;  // [n padded to 8] or null
  bool accumulate;    // add to what is there (residual) instead of overwriting
};

// One query: a row's vector of one attention head, and its running softmax over the blocks visited so far.
struct Query {
  const float* q;  // [head_dim], rotated and scaled
  float* out;      // [head_dim], unnormalised weighted sum of values
  float max;
  float sum;
  int position;  // sees positions first..position
  int first = 0;
  float cap = 0.0f;  // scores become cap * tanh(score / cap); 0 = as they are
};

using MatmulFunction = void(const Matmul&, int tile_begin, int tile_end);

// Functions that exist once per instruction set. All variants give the same bits.
struct Kernels {
  const char* name;
  int most_rows;                             // activation rows that share one reading of the weights
  MatmulFunction* matmul_int8[kNumFormats];  // null where the format is not quantised
  MatmulFunction* matmul_float[kNumFormats];
  float (*rms_scale)(const float* x, float eps, int n);
  void (*scale_mul)(const float* x, float scale, const float* weight, int n, float* y);
  void (*quantise)(const float* x, int k, const QuantRow& out);
  void (*silu_mul)(const float* gate, const float* up, float* y, int n);
  void (*gelu_mul)(const float* gate, const float* up, float* y, int n);  // GELU by tanh
  // x / divisor, then (cap != 0) cap * tanh(that / cap).
  void (*cap)(float* x, float divisor, float cap, int n);
  // Rotates pairs (i, i + half) of x by the angles of one position and multiplies all n elements by `scale`.
  void (*rope)(float* x, const float* cos, const float* sin, int half, int n, float scale);
  // One block of 64 positions for several queries. keys: [head_dim][64], values: [64][head_dim]; f32 or f16.
  // next: a block of the same shape to fetch meanwhile, or null.
  void (*attend)(Query* const* queries, int num, const float* keys, const float* values, int first_position,
                 int head_dim, const void* next);
  void (*attend_half)(Query* const* queries, int num, const std::uint16_t* keys, const std::uint16_t* values,
                      int first_position, int head_dim, const void* next);
  // Adds the softmax over later positions to the one over earlier positions (into.sum == 0: none yet).
  void (*combine)(Query& into, const Query& part, int head_dim);
  // The largest value of each block of kScanBlock of a row of logits; NaN is never the largest.
  void (*block_maxima)(const float* x, std::size_t n, double* maxima);
  void (*block_maxima_double)(const double* x, std::size_t n, double* maxima);
  // Weights, rint(exp(d) * 2^40), and buckets of distances; all arrays have room for a multiple of 8.
  void (*weigh)(const double* distances, int n, std::int64_t* weights, std::int32_t* buckets);
  // About the sum of exp((x - maximum) * scale).
  float (*sum_exp)(const float* x, int n, double maximum, double scale);
  float (*sum_exp_double)(const double* x, int n, double maximum, double scale);
  // Keep the multiply-add unit busy; return the number of multiply-adds.
  double (*peak_int8)(long rounds);
  double (*peak_float)(long rounds);
};

const Kernels& scalar_kernels();
const Kernels* avx2_kernels();  // null where not compiled in; so for the others
const Kernels* avxvnni_kernels();
const Kernels* avx512_kernels();
const Kernels* neondot_kernels();

// The variants that this CPU has and that pass their self-test, the best first.
const std::vector<const Kernels*>& usable_kernels();

// The variant that `isa` names. Empty: the one that the environment variable GUESSAHEAD_ISA names, else the
// best. std::invalid_argument for a name that is unknown or not usable here.
const Kernels& select_kernels(const std::string& isa);

// Whether a variant gives the scalar twin's bits. Takes about a millisecond.
bool passes_self_test(const Kernels& kernels);

}  // namespace ga
