// Q2_K: 256 codes of 2 bits share two halves; each 16 of them have a scale and a minimum of 4 bits.
// value = (d * scale) * code - m * minimum.
//
//   file   16 bytes (scale, above it minimum) | 64 bytes of 2-bit fields | f16 d | f16 m          84 bytes
//   tile   [8][8] (first half, second half) | 8 f16 d | 8 f16 m | 8 x 2-bit fields               672 bytes
//   kernel products of Codes::TwoBits: half_weights and half_dots, and min_dots for the minima
//   (dots_bytes.hpp,
//          dots_pairs.hpp)
#pragma once
#include <cstring>

#include "formats/family.hpp"

namespace ga {

template <>
struct Family<Format::Q2_K> {
  static int code(const std::uint8_t* src, int b, int k) { return super_pair(src + 16, b, k); }
  static void pack_scales(const std::uint8_t* src, int row, std::uint8_t* unit) {
    for (int b = 0; b < 8; ++b) std::memcpy(unit + 16 * b + 2 * row, src + 2 * b, 2);
  }
  static Steps steps(const std::uint8_t* unit, int b, int row, float d, float m) {
    const std::uint8_t* pair = unit + 16 * b + 2 * row;
    return {{d * (pair[0] & 15), d * (pair[1] & 15)}, {-(m * (pair[0] >> 4)), -(m * (pair[1] >> 4))}};
  }
};

}  // namespace ga
