// Weight matrices as the kernels want them: tiles of 8 rows, blocks of 32 along k, lanes = rows.
//
// A tile holds all of k for 8 consecutive rows (missing rows are zero). Within a block, byte vectors of 32
// hold 8 rows x 4 consecutive k ("quads"): byte 4 * row + i of quad j is k = 4 * j + i. So one 32-byte vector
// times four broadcast activation bytes feeds all 8 rows at once.
//
//   F32, F16, BF16   block: [32 k][8 rows] values
//   Q8_0             block: 8 quads of int8 | 8 x f16 scale                                        272 bytes
//   Q4_1             block: 4 vectors, low nibble quad j, high nibble quad j + 4 | 8 f16 scale | 8 f16 min
//   160 Q5_0             block: nibbles as Q4_1 | one vector, bit j = fifth bit of quad j | 8 f16 scale  176
//   Q4_K             256 k: [8][8] u8 scale | [8][8] u8 min | 8 f16 d | 8 f16 dmin | 8 x 128 nibbles 1184
//   Q6_K             256 k: [8] x {8 x (s8 scale of first half, s8 scale of second half)} | 8 f16 d
//                    | 8 x (128 low nibbles | 2 vectors of 2-bit fields, vector h field j = quad 4h + j) 1680
#pragma once
#include "common.hpp"

namespace ga {

// How a matrix lies in a file. The first formats are those that have a kind of their own, in the same order;
// each of the others is held exactly by one of these kinds.
enum class Format : int { F32, F16, BF16, Q8_0, Q4_1, Q5_0, Q4_K, Q6_K, Q4_0, IQ4_NL, Q3_K, Count };
constexpr int kNumFormats = static_cast<int>(Format::Count);

struct FileLayout {
  const char* name;
  Kind kind;  // that it becomes
  int block;  // elements of k per block
  int bytes;  // per block
};

constexpr FileLayout kFormats[kNumFormats] = {
    {"F32", Kind::F32, 1, 4},       {"F16", Kind::F16, 1, 2},       {"BF16", Kind::BF16, 1, 2},
    {"Q8_0", Kind::Q8_0, 32, 34},   {"Q4_1", Kind::Q4_1, 32, 20},   {"Q5_0", Kind::Q5_0, 32, 22},
    {"Q4_K", Kind::Q4_K, 256, 144}, {"Q6_K", Kind::Q6_K, 256, 210}, {"Q4_0", Kind::Q5_0, 32, 18},
    {"IQ4_NL", Kind::Q8_0, 32, 18}, {"Q3_K", Kind::Q6_K, 256, 110},
};
constexpr const FileLayout& layout(Format format) { return kFormats[static_cast<int>(format)]; }
constexpr Format own_format(Kind kind) { return static_cast<Format>(kind); }

struct Geometry {
  int file_block, file_bytes;  // of the kind's own format
  int tile_unit;               // elements of k per unit of a tile
  int tile_bytes;              // bytes per such unit (8 rows)
};

constexpr Geometry geometry(Kind kind) {
  switch (kind) {
    case Kind::F32:
      return {1, 4, 32, 1024};
    case Kind::F16:
      return {1, 2, 32, 512};
    case Kind::BF16:
      return {1, 2, 32, 512};
    case Kind::Q8_0:
      return {32, 34, 32, 272};
    case Kind::Q4_1:
      return {32, 20, 32, 160};
    case Kind::Q5_0:
      return {32, 22, 32, 176};
    case Kind::Q4_K:
      return {256, 144, 256, 1184};
    case Kind::Q6_K:
      return {256, 210, 256, 1680};
    default:
      return {0, 0, 0, 0};
  }
}

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
