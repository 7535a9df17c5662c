// Q4_K and Q5_K: 256 codes of 4 or 5 bits share two halves; each 32 of them have a scale and a minimum of
// 6 bits. value = (d * scale) * code - m * minimum.
//
//   file   f16 d | f16 m | 12 bytes of scales and minima | 32 bytes of fifth bits (Q5_K) | 128 bytes of
//   nibbles tile   [8][8] u8 scale | [8][8] u8 minimum | 8 f16 d | 8 f16 m | 8 x (nibbles | fifth bits)
//   kernel products of Codes::Nibbles and Codes::FiveBits as Q4_1; load_scales (products.hpp) has the scale
//   rule
#pragma once
#include "formats/family.hpp"

namespace ga {

// Numbers 0 to 3 lie in the low six bits of bytes 0 to 3 (scales) and 4 to 7 (minima). Of 4 to 7, the low
// halves lie in bytes 8 to 11 and the two bits above them on top of the first eight bytes.
struct SixBitScales {
  static void pack_scales(const std::uint8_t* src, int row, std::uint8_t* unit) {
    const std::uint8_t* s = src + 4;
    std::uint8_t *scales = unit + row, *mins = unit + tile_layout(Format::Q4_K).inner_mins + row;
    for (int b = 0; b < 4; ++b) {
      scales[8 * b] = s[b] & 63;
      mins[8 * b] = s[b + 4] & 63;
      scales[8 * (b + 4)] = static_cast<std::uint8_t>((s[b + 8] & 15) | (s[b] >> 6 << 4));
      mins[8 * (b + 4)] = static_cast<std::uint8_t>((s[b + 8] >> 4) | (s[b + 4] >> 6 << 4));
    }
  }
  static Steps steps(const std::uint8_t* unit, int b, int row, float d, float m) {
    const std::uint8_t* inner = unit + 8 * b + row;
    const float scale = d * inner[0], min = -(m * inner[tile_layout(Format::Q4_K).inner_mins]);
    return {{scale, scale}, {min, min}};
  }
};

template <>
struct Family<Format::Q4_K> : SixBitScales {
  static int code(const std::uint8_t* src, int b, int k) { return super_nibble(src + 16, b, k); }
};
template <>
struct Family<Format::Q5_K> : SixBitScales {
  static int code(const std::uint8_t* src, int b, int k) {
    return super_nibble(src + 48, b, k) | (src[16 + k] >> b & 1) << 4;
  }
};

}  // namespace ga
