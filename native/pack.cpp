// From the blocks of a file into tiles; the layouts of both are facts of ggml and of tiles.hpp.
#include <cstring>

#include "tiles.hpp"

namespace ga {
namespace {

// ---- parts of a block of a tile ----

void put_nibble(std::uint8_t* block, int row, int k, int value) {
  block[quad_byte(row, k % 16)] |= static_cast<std::uint8_t>(k < 16 ? value : value << 4);
}

// One bit per code, in the vector that begins at `bits`: bit j of a byte belongs to quad j.
void put_bit(std::uint8_t* bits, int row, int k, int value) {
  bits[quad_byte(row, k % 4)] |= static_cast<std::uint8_t>(value << (k / 4));
}

// Two bits per code, in the two vectors that begin at `pairs`: field j of vector h belongs to quad 4 h + j.
void put_pair(std::uint8_t* pairs, int row, int k, int value) {
  pairs[32 * (k / 16) + quad_byte(row, k % 4)] |= static_cast<std::uint8_t>(value << (2 * (k / 4 % 4)));
}

void put_five_bits(std::uint8_t* block, int row, int k, int value) {
  put_nibble(block, row, k, value & 15);
  put_bit(block + 128, row, k, value >> 4);
}

// ---- parts of a block of a file ----

// Code k of 32 whose first half lies in the low halves of 16 bytes.
int nibble_of(const std::uint8_t* bytes, int k) { return k < 16 ? bytes[k] & 15 : bytes[k - 16] >> 4; }

// Code k of block b, where 64 codes share 32 bytes: the low halves first.
int super_nibble(const std::uint8_t* bytes, int b, int k) {
  const int byte = bytes[32 * (b / 2) + k];
  return b % 2 == 0 ? byte & 15 : byte >> 4;
}

// Two bits of code k of block b, where 128 codes share 32 bytes.
int super_pair(const std::uint8_t* bytes, int b, int k) {
  return bytes[32 * (b / 4) + k] >> (2 * (b % 4)) & 3;
}

// 6-bit scale and minimum number j of Q4_K and Q5_K.
void scale_and_min(const std::uint8_t* s, int j, int& scale, int& min) {
  if (j < 4) {
    scale = s[j] & 63;
    min = s[j + 4] & 63;
  } else {
    scale = (s[j + 4] & 15) | (s[j - 4] >> 6 << 4);
    min = (s[j + 4] >> 4) | (s[j] >> 6 << 4);
  }
}

// 6-bit scale number j of Q3_K: eight bytes of low halves, first of 0 to 7, then of 8 to 15; four bytes of
// pairs of high bits.
int q3_k_scale(const std::uint8_t* s, int j) {
  const int nibble = j < 8 ? s[j] & 15 : s[j - 8] >> 4;
  return (nibble | (s[8 + j % 4] >> (2 * (j / 4)) & 3) << 4) - 32;
}

// ---- one file block of one row into a zeroed unit ----

void pack_float(std::size_t size, const std::uint8_t* src, int row, std::size_t count, std::uint8_t* unit) {
  for (std::size_t k = 0; k < count; ++k) std::memcpy(unit + (k * kLanes + row) * size, src + k * size, size);
}

void pack_bytes(const std::uint8_t* src, int row, std::uint8_t* unit) {
  for (int k = 0; k < kBlock; ++k) unit[quad_byte(row, k)] = src[2 + k];
}

void pack_nibbles(const std::uint8_t* codes, int row, std::uint8_t* unit) {
  for (int k = 0; k < kBlock; ++k) put_nibble(unit, row, k, nibble_of(codes, k));
}

void pack_five_bits(const std::uint8_t* high_bits, const std::uint8_t* codes, int row, std::uint8_t* unit) {
  std::uint32_t high;
  std::memcpy(&high, high_bits, 4);
  for (int k = 0; k < kBlock; ++k)
    put_five_bits(unit, row, k, nibble_of(codes, k) | static_cast<int>(high >> k & 1) << 4);
}

// Q4_K, and Q5_K where there are high bits.
void pack_q45_k(const Geometry& g, const std::uint8_t* scales, const std::uint8_t* high,
                const std::uint8_t* codes, int row, std::uint8_t* unit) {
  for (int b = 0; b < 8; ++b) {
    int scale, min;
    scale_and_min(scales, b, scale, min);
    unit[8 * b + row] = static_cast<std::uint8_t>(scale);
    unit[g.inner_mins + 8 * b + row] = static_cast<std::uint8_t>(min);
    std::uint8_t* block = unit + g.codes + b * g.block_bytes;
    for (int k = 0; k < kBlock; ++k) {
      put_nibble(block, row, k, super_nibble(codes, b, k));
      if (high != nullptr) put_bit(block + 128, row, k, high[k] >> b & 1);
    }
  }
}

void pack_q6_k(const Geometry& g, const std::uint8_t* src, int row, std::uint8_t* unit) {
  const std::uint8_t *low = src, *high = src + 128, *scales = src + 192;
  for (int b = 0; b < 8; ++b) {
    // Half h of the super-block (128 elements) has 64 bytes of low nibbles; its four groups of 32 elements
    // take (low half, low half, high half, high half) nibbles.
    const int h = b / 4, group = b % 4;
    std::uint8_t* block = unit + g.codes + b * g.block_bytes;
    for (int k = 0; k < kBlock; ++k) {
      const int byte = low[64 * h + 32 * (group % 2) + k];
      put_nibble(block, row, k, group < 2 ? byte & 15 : byte >> 4);
      put_pair(block + 128, row, k, super_pair(high, b, k));
    }
    std::memcpy(unit + 16 * b + 2 * row, scales + 2 * b, 2);
  }
}

void pack_q3_k(const Geometry& g, const std::uint8_t* src, int row, std::uint8_t* unit) {
  const std::uint8_t *thirds = src, *low = src + 32, *scales = src + 96;
  for (int b = 0; b < 8; ++b) {
    std::uint8_t* block = unit + g.codes + b * g.block_bytes;
    for (int k = 0; k < kBlock; ++k) {
      put_pair(block, row, k, super_pair(low, b, k));
      put_bit(block + 64, row, k, thirds[k] >> b & 1);
    }
    for (int half = 0; half < 2; ++half)
      unit[16 * b + 2 * row + half] = static_cast<std::uint8_t>(q3_k_scale(scales, 2 * b + half));
  }
}

void pack_q2_k(const Geometry& g, const std::uint8_t* src, int row, std::uint8_t* unit) {
  const std::uint8_t *scales = src, *codes = src + 16;
  for (int b = 0; b < 8; ++b) {
    for (int k = 0; k < kBlock; ++k)
      put_pair(unit + g.codes + b * g.block_bytes, row, k, super_pair(codes, b, k));
    std::memcpy(unit + 16 * b + 2 * row, scales + 2 * b, 2);
  }
}

void pack_iq4_xs(const Geometry& g, const std::uint8_t* src, int row, std::uint8_t* unit) {
  std::uint16_t high;
  std::memcpy(&high, src + 2, 2);
  const std::uint8_t *low = src + 4, *codes = src + 8;
  for (int b = 0; b < 8; ++b) {
    unit[8 * b + row] =
        static_cast<std::uint8_t>((low[b / 2] >> (4 * (b % 2)) & 15) | (high >> (2 * b) & 3) << 4);
    pack_nibbles(codes + 16 * b, row, unit + g.codes + b * g.block_bytes);
  }
}

void pack_codes(Format format, const std::uint8_t* src, int row, std::uint8_t* unit) {
  const Geometry g = geometry(layout(format).kind);
  switch (format) {
    case Format::Q8_0:
      return pack_bytes(src, row, unit);
    case Format::Q4_0:
    case Format::IQ4_NL:
      return pack_nibbles(src + 2, row, unit);
    case Format::Q4_1:
      return pack_nibbles(src + 4, row, unit);
    case Format::Q5_0:
      return pack_five_bits(src + 2, src + 6, row, unit);
    case Format::Q5_1:
      return pack_five_bits(src + 4, src + 8, row, unit);
    case Format::Q4_K:
      return pack_q45_k(g, src + 4, nullptr, src + 16, row, unit);
    case Format::Q5_K:
      return pack_q45_k(g, src + 4, src + 16, src + 48, row, unit);
    case Format::Q6_K:
      return pack_q6_k(g, src, row, unit);
    case Format::Q3_K:
      return pack_q3_k(g, src, row, unit);
    case Format::Q2_K:
      return pack_q2_k(g, src, row, unit);
    default:
      return pack_iq4_xs(g, src, row, unit);
  }
}

}  // namespace

void pack_tile(Format format, const std::uint8_t* const rows[kLanes], std::size_t k, std::uint8_t* tile) {
  const FileLayout& file = layout(format);
  const Geometry g = geometry(file.kind);
  const std::size_t unit_k = g.tile_unit;
  std::memset(tile, 0, tile_bytes(file.kind, k));
  for (int row = 0; row < kLanes; ++row) {
    if (rows[row] == nullptr) continue;
    std::uint8_t* unit = tile;
    for (std::size_t k0 = 0; k0 < k; k0 += unit_k, unit += g.tile_bytes) {
      const std::uint8_t* src = rows[row] + file_row_bytes(format, k0);
      if (!is_quantised(file.kind)) {
        pack_float(file.bytes, src, row, k - k0 < unit_k ? k - k0 : unit_k, unit);
        continue;
      }
      pack_codes(format, src, row, unit);
      std::memcpy(unit + g.scale + 2 * row, src + file.scale_at, 2);
      if (g.min >= 0) std::memcpy(unit + g.min + 2 * row, src + file.min_at, 2);
    }
  }
}

}  // namespace ga
