// IQ4_NL and IQ4_XS: codes of 4 bits that stand for uneven levels. IQ4_NL: 32 share a half, value = d *
// level. IQ4_XS: 256 share a half, and each 32 have a scale of 6 bits, value = (d * (scale - 32)) * level.
//
//   file   IQ4_NL  f16 d | 16 bytes of nibbles                                                    18 bytes
//          IQ4_XS  f16 d | 2 bytes of high bits, 4 of low halves of scales | 128 of nibbles      136 bytes
//   tile   IQ4_NL  nibbles | 8 f16 d                                                             144 bytes
//          IQ4_XS  [8][8] u8 scale | 8 f16 d | 8 x nibbles                                      1104 bytes
//   kernel products of Codes::Levels: levels_of and nibbles (dots_bytes.hpp), signed_dots (dots_pairs.hpp);
//          load_scales (products.hpp) has the scale rule
#pragma once
#include <cstring>

#include "formats/family.hpp"

namespace ga {

template <>
struct Family<Format::IQ4_NL> : OneScale {
  static int code(const std::uint8_t* src, int, int k) { return nibble_of(src + 2, k); }
};

template <>
struct Family<Format::IQ4_XS> {
  static int code(const std::uint8_t* src, int b, int k) { return nibble_of(src + 8 + 16 * b, k); }
  static void pack_scales(const std::uint8_t* src, int row, std::uint8_t* unit) {
    std::uint16_t high;
    std::memcpy(&high, src + 2, 2);
    for (int b = 0; b < 8; ++b) {
      const int low = src[4 + b / 2] >> (4 * (b % 2)) & 15;
      unit[8 * b + row] = static_cast<std::uint8_t>(low | (high >> (2 * b) & 3) << 4);
    }
  }
  static Steps steps(const std::uint8_t* unit, int b, int row, float d, float m) {
    const float scale = d * static_cast<float>(unit[8 * b + row] - 32);
    return {{scale, scale}, {m, m}};
  }
};

}  // namespace ga
