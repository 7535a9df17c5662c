// What a family header says of each of its formats, and what families share.
#pragma once
#include "formats/tile.hpp"

namespace ga {

// Scales of both halves of a block of 32, and what is added to the products.
struct Steps {
  float scale[2], min[2];
};

// Specialised for each quantised format by its family:
//   int code(src, b, k)               code k of block b (32 elements) of a block of the file
//   void pack_scales(src, row, unit)  inner scales of a block of the file into a unit; d and m are copied
//   anyhow Steps steps(unit, b, row, d, m)   scale rule of block b of a unit, as list.hpp states it
template <Format F>
struct Family;

// The scale rule of formats without inner scales.
struct OneScale {
  static void pack_scales(const std::uint8_t*, int, std::uint8_t*) {}
  static Steps steps(const std::uint8_t*, int, int, float d, float m) { return {{d, d}, {m, m}}; }
};

// Code k of 32 whose first half lies in the low halves of 16 bytes.
inline int nibble_of(const std::uint8_t* bytes, int k) { return k < 16 ? bytes[k] & 15 : bytes[k - 16] >> 4; }

// Code k of block b, where 64 codes share 32 bytes: the low halves first.
inline int super_nibble(const std::uint8_t* bytes, int b, int k) {
  const int byte = bytes[32 * (b / 2) + k];
  return b % 2 == 0 ? byte & 15 : byte >> 4;
}

// Two bits of code k of block b, where 128 codes share 32 bytes.
inline int super_pair(const std::uint8_t* bytes, int b, int k) {
  return bytes[32 * (b / 4) + k] >> (2 * (b % 4)) & 3;
}

}  // namespace ga
