// How weight matrices lie in memory: tiles of 8 rows, blocks of 32 along k, lanes = rows.
//
// A tile holds all of k for 8 consecutive rows (missing rows are zero), unit after unit. Within a block, byte
// vectors of 32 hold 8 rows x 4 consecutive k ("quads"): byte 4 * row + i of quad j is k = 4 * j + i. So one
// 32-byte vector times four broadcast activation bytes feeds all 8 rows at once.
#pragma once
#include "formats/list.hpp"

namespace ga {

constexpr int kBlock = 32;  // elements of k that share an activation scale; accumulation goes block by block
constexpr int kLanes = 8;   // weight rows per tile: lane i of a vector is row i of the tile

// clang-format off
//
// The codes of a block, 8 rows x 32 k                                                              bytes
//   Values      [32 k][8 rows] values as in the file                                          1024 or 512
//   Bytes       8 quads of int8                                                                       256
//   Nibbles     4 vectors: vector j holds quad j in the low nibbles, quad j + 4 in the high ones      128
//   Levels      as Nibbles; a code c stands for kLevels[c]                                            128
//   FiveBits    Nibbles | 1 vector: bit j of a byte is the fifth bit of quad j                        160
//   SixBits     Nibbles | 2 vectors: field j (2 bits) of vector h is bits 4 and 5 of quad 4 h + j     192
//   ThreeBits   2 vectors: field j of vector h is bits 0 and 1 of quad 4 h + j | 1 vector of bits 2    96
//   TwoBits     2 vectors: field j of vector h is quad 4 h + j                                         64
//
// The unit of a tile, 8 rows
//   None, Block, BlockMin    one block: codes | 8 f16 d (not None) | 8 f16 m (BlockMin)
//   SuperMin                 8 blocks: [8 blocks][8 rows] u8 scale | [8][8] u8 minimum | 8 f16 d | 8 f16 m | codes
//   SuperOffset              8 blocks: [8][8] u8 scale | 8 f16 d | codes
//   Halves                   8 blocks: [8][8] (s8 scale of the first half, of the second half) | 8 f16 d | codes
//   HalvesMin                8 blocks: [8][8] (first half, second half), each u4 scale and above it u4 minimum
//                                      | 8 f16 d | 8 f16 m | codes
//
// clang-format on

// Where the parts of a unit lie, in bytes; -1 = there is none.
struct TileLayout {
  int unit;                // elements of k
  int bytes;               // of a unit
  int codes, block_bytes;  // of the first block; from one block to the next
  int scale, min;          // d and m
  int inner_mins;          // of SuperMin; scales of a unit of 8 blocks lie at its beginning
};

constexpr int code_bytes(Format format) {
  switch (info(format).codes) {
    case Codes::Values:
      return kBlock * kLanes * info(format).bytes;
    case Codes::Bytes:
      return 256;
    case Codes::Nibbles:
    case Codes::Levels:
      return 128;
    case Codes::FiveBits:
      return 160;
    case Codes::SixBits:
      return 192;
    case Codes::ThreeBits:
      return 96;
    default:
      return 64;
  }
}

constexpr TileLayout tile_layout(Format format) {
  constexpr int kHalves = 2 * kLanes;
  const Scales scales = info(format).scales;
  const int block_bytes = code_bytes(format), min_bytes = info(format).min_at < 0 ? 0 : kHalves;
  if (info(format).block <= kBlock) {
    if (scales == Scales::None) return {kBlock, block_bytes, 0, block_bytes, -1, -1, -1};
    const int bytes = block_bytes + kHalves + min_bytes, min = min_bytes == 0 ? -1 : block_bytes + kHalves;
    return {kBlock, bytes, 0, block_bytes, block_bytes, min, -1};
  }
  constexpr int kBlocks = 8, kScales = kBlocks * kLanes;
  const int inner_bytes = scales == Scales::SuperOffset ? kScales : 2 * kScales;
  const int codes = inner_bytes + kHalves + min_bytes, min = min_bytes == 0 ? -1 : inner_bytes + kHalves;
  return {kBlocks * kBlock,
          codes + kBlocks * block_bytes,
          codes,
          block_bytes,
          inner_bytes,
          min,
          scales == Scales::SuperMin ? kScales : -1};
}

// What the kernels' offsets rest on.
static_assert(tile_layout(Format::Q8_0).bytes == 272 && tile_layout(Format::Q4_0).bytes == 144);
static_assert(tile_layout(Format::Q4_1).bytes == 160 && tile_layout(Format::Q5_0).bytes == 176);
static_assert(tile_layout(Format::Q5_1).bytes == 192 && tile_layout(Format::IQ4_NL).bytes == 144);
static_assert(tile_layout(Format::Q4_K).bytes == 1184 && tile_layout(Format::Q5_K).bytes == 1440);
static_assert(tile_layout(Format::Q6_K).bytes == 1680 && tile_layout(Format::Q3_K).bytes == 912);
static_assert(tile_layout(Format::Q2_K).bytes == 672 && tile_layout(Format::IQ4_XS).bytes == 1104);

constexpr std::size_t tile_bytes(Format format, std::size_t k) {
  const std::size_t unit = tile_layout(format).unit;
  return (k + unit - 1) / unit * tile_layout(format).bytes;
}

// Where byte `k` of `row` lies among the quads of a block.
constexpr int quad_byte(int row, int k) { return 32 * (k / 4) + 4 * row + k % 4; }

// What the codes of IQ4_NL and IQ4_XS stand for (ggml's kvalues_iq4nl).
constexpr std::int8_t kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};

// Repacks 8 rows of a file (null = a missing row, becomes zero) into one tile.
void pack_tile(Format format, const std::uint8_t* const rows[kLanes], std::size_t k, std::uint8_t* tile);

// The 32 values of one row of a block, `stride` apart; the same bits as the file format's reference.
void unpack_row(Format format, const std::uint8_t* tile, int block, int row, float* out, int stride);

// All values of a block, [32 k][8 rows].
void unpack_block(Format format, const std::uint8_t* tile, int block, float* out);

// Integer weights of one row of a block, offset applied, before scales; for the scalar twin.
void unpack_integers(Format format, const std::uint8_t* tile, int block, int row, int out[kBlock]);

}  // namespace ga
