// Words and numbers that every part of the native engine shares.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ga {

constexpr int kBlock = 32;  // elements of k that share one activation scale; every accumulation step is one block
constexpr int kLanes = 8;   // weight rows per tile: lane i of a vector is row i of the tile
constexpr int kPage = 64;   // positions per cache page = per attention block

// How a weight matrix lies in memory after repacking (see tiles.hpp). One kind may serve several file formats.
enum class Kind : int { F32, F16, BF16, Q8_0, Q4_1, Q5_0, Q4_K, Q6_K, Count };
constexpr int kNumKinds = static_cast<int>(Kind::Count);

constexpr bool is_quantised(Kind kind) { return kind >= Kind::Q8_0; }

// One row of activations, quantised by itself in blocks of 32 (k of them, k a multiple of 32).
struct QuantRow {
  std::int8_t* q;       // [k], in [-127, 127]
  float* scale;         // [k/32]: value = scale * q
  float* scaled_sum;    // [k/32]: scale * (sum of the block's q), for formats with a minimum
  std::int16_t* sums;   // [k/16]: sums of q over halves of a block, for formats with an offset
};

// The same for up to max_rows rows, as arrays with strides; row r starts at r * stride.
struct QuantRows {
  std::int8_t* q = nullptr;
  float* scale = nullptr;
  float* scaled_sum = nullptr;
  std::int16_t* sums = nullptr;
  std::size_t k = 0;
  // Row r from column `first` (a multiple of 32) on.
  [[gnu::always_inline]] QuantRow row(std::size_t r, std::size_t first = 0) const {
    const std::size_t at = r * k + first;
    return {q + at, scale + at / kBlock, scaled_sum + at / kBlock, sums + at / 16};
  }
};

// out[r][i] (+)= sum over k of x[r][k] * weight[i][k] (+ bias[i]) for the weight tiles [tile_begin, tile_end).
struct Matmul {
  const std::uint8_t* tiles;  // repacked weight
  std::size_t tile_bytes;
  int n;                      // outputs
  int blocks;                 // k / 32
  int rows;                   // activation rows
  const float* x;             // f32 route: [rows][x_stride]
  std::size_t x_stride;
  QuantRows quant;            // int8 route
  float* out;                 // [rows][out_stride]
  std::size_t out_stride;
  const float* bias;          // [n padded to 8] or null
  bool accumulate;            // add to what is there (residual) instead of overwriting
};

// One query: a row's vector of one attention head, and its running softmax over the blocks visited so far.
struct Query {
  const float* q;  // [head_dim], rotated and scaled
  float* out;      // [head_dim], unnormalised weighted sum of values
  float max;
  float sum;
  int position;    // sees positions 0..position
};

// Functions that exist once per instruction set. All variants give the same bits.
struct Kernels {
  const char* name;
  void (*matmul_int8[kNumKinds])(const Matmul&, int tile_begin, int tile_end);
  void (*matmul_float[kNumKinds])(const Matmul&, int tile_begin, int tile_end);
  void (*rmsnorm)(const float* x, const float* weight, float eps, int n, float* y);
  void (*quantise)(const float* x, int k, QuantRow out);
  void (*silu_mul)(const float* gate, const float* up, float* y, int n);
  // Rotates pairs (i, i + half) of x by the angles of one position and multiplies all n elements by `scale`.
  void (*rope)(float* x, const float* cos, const float* sin, int half, int n, float scale);
  // One block of 64 positions for several queries. keys: [head_dim][64], values: [64][head_dim]; f32 or f16.
  void (*attend)(Query* const* queries, int num, const float* keys, const float* values, int first_position,
                 int head_dim);
  void (*attend_half)(Query* const* queries, int num, const std::uint16_t* keys, const std::uint16_t* values,
                      int first_position, int head_dim);
  // Adds the softmax over later positions to the one over earlier positions (into.sum == 0: none yet).
  void (*combine)(Query& into, const Query& part, int head_dim);
};

const Kernels& scalar_kernels();
const Kernels* avx2_kernels();  // null where not compiled in; so for the others
const Kernels* avxvnni_kernels();
const Kernels* avx512_kernels();

// The variants that this CPU has and that pass their self-test, the best first.
const std::vector<const Kernels*>& usable_kernels();

// The variant that `isa` names, or the best (null or empty). Null for an unknown or unusable name.
const Kernels* select_kernels(const char* isa);

}  // namespace ga
