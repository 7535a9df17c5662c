// One code of a block of a tile: where it lies, for each way of storing codes (see the table in tile.hpp).
#pragma once
#include "formats/tile.hpp"

namespace ga {

inline void put_nibble(std::uint8_t* block, int row, int k, int value) {
  block[quad_byte(row, k % 16)] |= static_cast<std::uint8_t>(k < 16 ? value : value << 4);
}
inline int get_nibble(const std::uint8_t* block, int row, int k) {
  const int byte = block[quad_byte(row, k % 16)];
  return k < 16 ? byte & 15 : byte >> 4;
}

// One bit per code, in one vector: bit j of a byte belongs to quad j.
inline void put_bit(std::uint8_t* bits, int row, int k, int value) {
  bits[quad_byte(row, k % 4)] |= static_cast<std::uint8_t>(value << (k / 4));
}
inline int get_bit(const std::uint8_t* bits, int row, int k) {
  return bits[quad_byte(row, k % 4)] >> (k / 4) & 1;
}

// Two bits per code, in two vectors: field j of vector h belongs to quad 4 h + j.
inline void put_pair(std::uint8_t* pairs, int row, int k, int value) {
  pairs[32 * (k / 16) + quad_byte(row, k % 4)] |= static_cast<std::uint8_t>(value << (2 * (k / 4 % 4)));
}
inline int get_pair(const std::uint8_t* pairs, int row, int k) {
  return pairs[32 * (k / 16) + quad_byte(row, k % 4)] >> (2 * (k / 4 % 4)) & 3;
}

// Into a zeroed block.
template <Codes C>
inline void put_code(std::uint8_t* block, int row, int k, int code) {
  if constexpr (C == Codes::Bytes) {
    block[quad_byte(row, k)] = static_cast<std::uint8_t>(code);
  } else if constexpr (C == Codes::Nibbles || C == Codes::Levels) {
    put_nibble(block, row, k, code);
  } else if constexpr (C == Codes::FiveBits) {
    put_nibble(block, row, k, code & 15);
    put_bit(block + 128, row, k, code >> 4);
  } else if constexpr (C == Codes::SixBits) {
    put_nibble(block, row, k, code & 15);
    put_pair(block + 128, row, k, code >> 4);
  } else if constexpr (C == Codes::ThreeBits) {
    put_pair(block, row, k, code & 3);
    put_bit(block + 64, row, k, code >> 2);
  } else {
    static_assert(C == Codes::TwoBits);
    put_pair(block, row, k, code);
  }
}

// As a signed integer, before the format's offset.
inline int get_code(Codes codes, const std::uint8_t* block, int row, int k) {
  switch (codes) {
    case Codes::Bytes:
      return static_cast<std::int8_t>(block[quad_byte(row, k)]);
    case Codes::Nibbles:
      return get_nibble(block, row, k);
    case Codes::Levels:
      return kLevels[get_nibble(block, row, k)];
    case Codes::FiveBits:
      return get_nibble(block, row, k) | get_bit(block + 128, row, k) << 4;
    case Codes::SixBits:
      return get_nibble(block, row, k) | get_pair(block + 128, row, k) << 4;
    case Codes::ThreeBits:
      return get_pair(block, row, k) | get_bit(block + 64, row, k) << 2;
    default:
      return get_pair(block, row, k);
  }
}

}  // namespace ga
