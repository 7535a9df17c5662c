// Q4_0, Q4_1, Q5_0 and Q5_1: 32 codes of 4 or 5 bits share a half. value = d * (code - offset), or with a
// minimum d * code + m.
//
//   file   f16 d | f16 m (Q4_1, Q5_1) | 32 fifth bits (Q5_0, Q5_1) | 16 bytes of nibbles     18 to 24 bytes
//   tile   nibbles | fifth bits | 8 f16 d | 8 f16 m                                        144 to 192 bytes
//   kernel products of Codes::Nibbles and Codes::FiveBits: nibbles (dots_bytes.hpp), nibble_dots and
//   five_dots
//          (dots_pairs.hpp)
#pragma once
#include <cstring>

#include "formats/family.hpp"

namespace ga {

inline int five_bits_of(const std::uint8_t* high_bits, const std::uint8_t* nibbles, int k) {
  std::uint32_t high;
  std::memcpy(&high, high_bits, 4);
  return nibble_of(nibbles, k) | static_cast<int>(high >> k & 1) << 4;
}

template <>
struct Family<Format::Q4_0> : OneScale {
  static int code(const std::uint8_t* src, int, int k) { return nibble_of(src + 2, k); }
};
template <>
struct Family<Format::Q4_1> : OneScale {
  static int code(const std::uint8_t* src, int, int k) { return nibble_of(src + 4, k); }
};
template <>
struct Family<Format::Q5_0> : OneScale {
  static int code(const std::uint8_t* src, int, int k) { return five_bits_of(src + 2, src + 6, k); }
};
template <>
struct Family<Format::Q5_1> : OneScale {
  static int code(const std::uint8_t* src, int, int k) { return five_bits_of(src + 4, src + 8, k); }
};

}  // namespace ga
