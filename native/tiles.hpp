// Weight matrices as the kernels want them: tiles of 8 rows, blocks of 32 along k, lanes = rows.
//
// A tile holds all of k for 8 consecutive rows (missing rows are zero). Within a block, byte vectors of 32
// hold 8 rows x 4 consecutive k ("quads"): byte 4 * row + i of quad j is k = 4 * j + i. So one 32-byte vector
// times four broadcast activation bytes feeds all 8 rows at once.
//
//   F32, F16, BF16   block: [32 k][8 rows] values
//   Q8_0             block: 8 quads of int8 | 8 x f16 scale                                        272 bytes
//   Q4_1             block: 4 vectors, low nibble quad j, high nibble quad j + 4 | 8 f16 scale | 8 f16 min  160
//   Q5_0             block: nibbles as Q4_1 | one vector, bit j = fifth bit of quad j | 8 f16 scale  176
//   Q4_K             256 k: [8][8] u8 scale | [8][8] u8 min | 8 f16 d | 8 f16 dmin | 8 x 128 nibbles 1184
//   Q6_K             256 k: [8] x {8 x (s8 scale of first half, s8 scale of second half)} | 8 f16 d
//                    | 8 x (128 low nibbles | 2 vectors of 2-bit fields, vector h field j = quad 4h + j)  1680
#pragma once
#include "common.hpp"

namespace ga {

struct Geometry {
  int file_block;             // elements of k per block in the file
  int file_bytes;             // bytes per such block
  int tile_unit;              // elements of k per unit of a tile
  int tile_bytes;             // bytes per such unit (8 rows)
};

constexpr Geometry geometry(Kind kind) {
  switch (kind) {
    case Kind::F32: return {1, 4, 32, 1024};
    case Kind::F16: return {1, 2, 32, 512};
    case Kind::BF16: return {1, 2, 32, 512};
    case Kind::Q8_0: return {32, 34, 32, 272};
    case Kind::Q4_1: return {32, 20, 32, 160};
    case Kind::Q5_0: return {32, 22, 32, 176};
    case Kind::Q4_K: return {256, 144, 256, 1184};
    case Kind::Q6_K: return {256, 210, 256, 1680};
    default: return {0, 0, 0, 0};
  }
}

constexpr std::size_t file_row_bytes(Kind kind, std::size_t k) {
  return k / geometry(kind).file_block * geometry(kind).file_bytes;
}
constexpr std::size_t tile_bytes(Kind kind, std::size_t k) {
  const std::size_t unit = geometry(kind).tile_unit;
  return (k + unit - 1) / unit * geometry(kind).tile_bytes;
}

// Repacks 8 file rows (null = a missing row, becomes zero) into one tile.
void pack_tile(Kind kind, const std::uint8_t* const rows[kLanes], std::size_t k, std::uint8_t* tile);

// The 32 values of one row of a block, `stride` apart; the same bits as the file format's reference.
void unpack_row(Kind kind, const std::uint8_t* tile, int block, int row, float* out, int stride);

// All values of a block, [32 k][8 rows].
void unpack_block(Kind kind, const std::uint8_t* tile, int block, float* out);

// Integer weights of one row of a block, offset applied, before scales; for the scalar twin.
void unpack_integers(Kind kind, const std::uint8_t* tile, int block, int row, int out[kBlock]);

float half_to_float(std::uint16_t bits);
std::uint16_t float_to_half(float value);  // to nearest, ties to even

}  // namespace ga
