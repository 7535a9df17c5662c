// Weight matrices as the kernels want them: tiles of 8 rows, blocks of 32 along k, lanes = rows.
//
// A tile holds all of k for 8 consecutive rows (missing rows are zero). Within a block, byte vectors of 32
// hold 8 rows x 4 consecutive k ("quads"): byte 4 * row + i of quad j is k = 4 * j + i. So one 32-byte vector
// times four broadcast activation bytes feeds all 8 rows at once.
//
//   F32, F16, BF16   block: [32 k][8 rows] values
//   Q8_0             block: 8 quads of int8 | 8 x f16 scale                                        272 bytes
//   Q4_0, IQ4_NL     block: 4 vectors, low nibble quad j, high nibble quad j + 4 | 8 f16 scale 144 Q4_1
//   block: nibbles as Q4_0 | 8 f16 scale | 8 f16 min                                      160 Q5_0 block:
//   nibbles as Q4_0 | one vector, bit j = fifth bit of quad j | 8 f16 scale        176 Q5_1 block: nibbles
//   and fifth bits as Q5_0 | 8 f16 scale | 8 f16 min                       192 Q4_K             256 k: [8][8]
//   u8 scale | [8][8] u8 min | 8 f16 d | 8 f16 dmin | 8 x 128 nibbles      1184 Q5_K             256 k: as
//   Q4_K, with 8 x (128 nibbles | one vector of fifth bits)                    1440 IQ4_XS           256 k:
//   [8][8] u8 scale + 32 | 8 f16 d | 8 x 128 nibbles                              1104 Q6_K             256
//   k: [8] x {8 x (s8 scale of first half, s8 scale of second half)} | 8 f16 d
//                    | 8 x (128 low nibbles | 2 vectors of 2-bit fields, vector h field j = quad 4h + j) 1680
//   Q3_K             256 k: scales and d as Q6_K | 8 x (2 vectors of 2-bit fields | one of third bits) 912
//   Q2_K             256 k: [8] x {8 x (first half, second half), each u4 scale and above it u4 min}
//                    | 8 f16 d | 8 f16 dmin | 8 x 2 vectors of 2-bit fields 672
#pragma once
#include "common.hpp"

namespace ga {

// How a matrix lies in a file: for each kind the format of its name, in the same order.
enum class Format : int {
  F32,
  F16,
  BF16,
  Q8_0,
  Q4_1,
  Q5_0,
  Q4_K,
  Q6_K,
  Q4_0,
  Q5_1,
  Q5_K,
  Q3_K,
  Q2_K,
  IQ4_NL,
  IQ4_XS,
  Count
};
constexpr int kNumFormats = static_cast<int>(Format::Count);

struct FileLayout {
  const char* name;
  Kind kind;          // that it becomes
  int block;          // elements of k per block
  int bytes;          // per block
  int scale_at = -1;  // where the halves of a block lie
  int min_at = -1;
};

constexpr FileLayout kFormats[kNumFormats] = {
    {"F32", Kind::F32, 1, 4},
    {"F16", Kind::F16, 1, 2},
    {"BF16", Kind::BF16, 1, 2},
    {"Q8_0", Kind::Q8_0, 32, 34, 0},
    {"Q4_1", Kind::Q4_1, 32, 20, 0, 2},
    {"Q5_0", Kind::Q5_0, 32, 22, 0},
    {"Q4_K", Kind::Q4_K, 256, 144, 0, 2},
    {"Q6_K", Kind::Q6_K, 256, 210, 208},
    {"Q4_0", Kind::Q4_0, 32, 18, 0},
    {"Q5_1", Kind::Q5_1, 32, 24, 0, 2},
    {"Q5_K", Kind::Q5_K, 256, 176, 0, 2},
    {"Q3_K", Kind::Q3_K, 256, 110, 108},
    {"Q2_K", Kind::Q2_K, 256, 84, 80, 82},
    {"IQ4_NL", Kind::IQ4_NL, 32, 18, 0},
    {"IQ4_XS", Kind::IQ4_XS, 256, 136, 0},
};
constexpr const FileLayout& layout(Format format) { return kFormats[static_cast<int>(format)]; }
constexpr Format own_format(Kind kind) { return static_cast<Format>(kind); }

// Where the parts of a unit of a tile lie, in bytes; -1 = the kind has none.
struct Geometry {
  int tile_unit;           // elements of k per unit
  int tile_bytes;          // bytes per unit (8 rows)
  int codes, block_bytes;  // of the first block; from one block to the next within a unit
  int scale = -1, min = -1;
  int inner_mins = -1;  // of super-block kinds, whose inner scales lie at the beginning
};

constexpr Geometry geometry(Kind kind) {
  switch (kind) {
    case Kind::F32:
      return {32, 1024, 0, 1024};
    case Kind::F16:
    case Kind::BF16:
      return {32, 512, 0, 512};
    case Kind::Q8_0:
      return {32, 272, 0, 272, 256};
    case Kind::Q4_0:
    case Kind::IQ4_NL:
      return {32, 144, 0, 144, 128};
    case Kind::Q4_1:
      return {32, 160, 0, 160, 128, 144};
    case Kind::Q5_0:
      return {32, 176, 0, 176, 160};
    case Kind::Q5_1:
      return {32, 192, 0, 192, 160, 176};
    case Kind::Q4_K:
      return {256, 1184, 160, 128, 128, 144, 64};
    case Kind::Q5_K:
      return {256, 1440, 160, 160, 128, 144, 64};
    case Kind::IQ4_XS:
      return {256, 1104, 80, 128, 64};
    case Kind::Q6_K:
      return {256, 1680, 144, 192, 128};
    case Kind::Q3_K:
      return {256, 912, 144, 96, 128};
    case Kind::Q2_K:
      return {256, 672, 160, 64, 128, 144};
    default:
      return {0, 0, 0, 0};
  }
}

// Kinds whose blocks have a scale for each half.
constexpr bool has_half_scales(Kind kind) {
  return kind == Kind::Q6_K || kind == Kind::Q3_K || kind == Kind::Q2_K;
}
constexpr bool has_levels(Kind kind) { return kind == Kind::IQ4_NL || kind == Kind::IQ4_XS; }
constexpr bool has_five_bits(Kind kind) {
  return kind == Kind::Q5_0 || kind == Kind::Q5_1 || kind == Kind::Q5_K;
}

// What the codes of IQ4_NL and IQ4_XS stand for (ggml's kvalues_iq4nl).
constexpr std::int8_t kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};

// Where byte `k` of `row` lies among the eight 32-byte quads of a block.
constexpr int quad_byte(int row, int k) { return 32 * (k / 4) + 4 * row + k % 4; }

constexpr std::size_t file_row_bytes(Format format, std::size_t k) {
  return k / layout(format).block * layout(format).bytes;
}
constexpr std::size_t file_row_bytes(Kind kind, std::size_t k) { return file_row_bytes(own_format(kind), k); }
constexpr std::size_t tile_bytes(Kind kind, std::size_t k) {
  const std::size_t unit = geometry(kind).tile_unit;
  return (k + unit - 1) / unit * geometry(kind).tile_bytes;
}

// Repacks 8 file rows (null = a missing row, becomes zero) into one tile of the format's kind.
void pack_tile(Format format, const std::uint8_t* const rows[kLanes], std::size_t k, std::uint8_t* tile);
inline void pack_tile(Kind kind, const std::uint8_t* const rows[kLanes], std::size_t k, std::uint8_t* tile) {
  pack_tile(own_format(kind), rows, k, tile);
}

// The 32 values of one row of a block, `stride` apart; the same bits as the file format's reference.
void unpack_row(Kind kind, const std::uint8_t* tile, int block, int row, float* out, int stride);

// All values of a block, [32 k][8 rows].
void unpack_block(Kind kind, const std::uint8_t* tile, int block, float* out);

// Integer weights of one row of a block, offset applied, before scales; for the scalar twin.
void unpack_integers(Kind kind, const std::uint8_t* tile, int block, int row, int out[kBlock]);

float half_to_float(std::uint16_t bits);
std::uint16_t float_to_half(float value);  // to nearest, ties to even

}  // namespace ga
