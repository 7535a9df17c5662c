// Q6_K: 256 codes of 6 bits share a half; each 16 of them have a signed scale of 8 bits.
// value = (d * scale) * (code - 32).
//
//   file   128 bytes of low nibbles | 64 bytes of 2-bit fields | 16 s8 scales | f16 d            210 bytes
//   tile   [8][8] (s8, s8) scales | 8 f16 d | 8 x (nibbles | 2-bit fields)                      1680 bytes
//   kernel products of Codes::SixBits: half_weights and half_dots (dots_bytes.hpp, dots_pairs.hpp)
#pragma once
#include <cstring>

#include "formats/family.hpp"

namespace ga {

// d times a signed scale for each half of a block: Q6_K and Q3_K.
struct SignedHalfScales {
  static Steps steps(const std::uint8_t* unit, int b, int row, float d, float m) {
    const std::uint8_t* pair = unit + 16 * b + 2 * row;
    return {{d * static_cast<std::int8_t>(pair[0]), d * static_cast<std::int8_t>(pair[1])}, {m, m}};
  }
};

template <>
struct Family<Format::Q6_K> : SignedHalfScales {
  // A half of the super-block (128 elements) has 64 bytes of low nibbles; its four groups of 32 elements take
  // (low half, low half, high half, high half) nibbles.
  static int code(const std::uint8_t* src, int b, int k) {
    const int half = b / 4, group = b % 4, byte = src[64 * half + 32 * (group % 2) + k];
    return (group < 2 ? byte & 15 : byte >> 4) | super_pair(src + 128, b, k) << 4;
  }
  static void pack_scales(const std::uint8_t* src, int row, std::uint8_t* unit) {
    for (int b = 0; b < 8; ++b) std::memcpy(unit + 16 * b + 2 * row, src + 192 + 2 * b, 2);
  }
};

}  // namespace ga
