// Q3_K: 256 codes of 3 bits share a half; each 16 of them have a scale of 6 bits, less 32.
// value = (d * scale) * (code - 4).
//
//   file   32 bytes of third bits | 64 bytes of 2-bit fields | 12 bytes of scales | f16 d        110 bytes
//   tile   [8][8] (s8, s8) scales | 8 f16 d | 8 x (2-bit fields | third bits)                    912 bytes
//   kernel products of Codes::ThreeBits: half_weights and half_dots (dots_bytes.hpp, dots_pairs.hpp)
#pragma once
#include "formats/q6_k.hpp"

namespace ga {

template <>
struct Family<Format::Q3_K> : SignedHalfScales {
  static int code(const std::uint8_t* src, int b, int k) {
    return super_pair(src + 32, b, k) | (src[k] >> b & 1) << 2;
  }
  // Scale number j. Eight bytes of low halves, first of 0 to 7, then of 8 to 15; four bytes of pairs of high
  // bits.
  static int scale(const std::uint8_t* s, int j) {
    const int nibble = j < 8 ? s[j] & 15 : s[j - 8] >> 4;
    return (nibble | (s[8 + j % 4] >> (2 * (j / 4)) & 3) << 4) - 32;
  }
  static void pack_scales(const std::uint8_t* src, int row, std::uint8_t* unit) {
    for (int j = 0; j < 16; ++j)
      unit[16 * (j / 2) + 2 * row + j % 2] = static_cast<std::uint8_t>(scale(src + 96, j));
  }
};

}  // namespace ga
