// The one list of weight formats: what a file holds, and which parts a tile is made of.
//
// A line is enough for names, sizes, tile layout and the tables of kernels. How the codes and scales of a
// block of a file are read stands in the header of the family, formats/<family>.hpp.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ga {

// What one number of a block is stored as, and how 32 numbers of 8 rows lie in a tile (see tile.hpp).
enum class Codes { Values, Bytes, Nibbles, Levels, FiveBits, SixBits, ThreeBits, TwoBits };

// What a code is multiplied with, and what is added. d and m are halves of the block of the file.
enum class Scales {
  None,         // the values themselves
  Block,        // d * code
  BlockMin,     // d * code + m
  SuperMin,     // (d * u8 scale) * code - m * u8 minimum, scale and minimum for each 32
  SuperOffset,  // (d * (u8 scale - 32)) * code, scale for each 32
  Halves,       // (d * s8 scale) * code, scale for each 16
  HalvesMin,    // (d * u4 scale) * code - m * u4 minimum, scale and minimum for each 16
};

// clang-format off
//                     a block of a file
//    name    family   elements bytes  d at  m at   codes      less  scales
#define GA_FORMATS(X)                                                              \
  X(  F32,    plain,          1,    4,   -1,   -1,  Values,       0, None        ) \
  X(  F16,    plain,          1,    2,   -1,   -1,  Values,       0, None        ) \
  X(  BF16,   plain,          1,    2,   -1,   -1,  Values,       0, None        ) \
  X(  Q8_0,   q8_0,          32,   34,    0,   -1,  Bytes,        0, Block       ) \
  X(  Q4_1,   q4_0,          32,   20,    0,    2,  Nibbles,      0, BlockMin    ) \
  X(  Q5_0,   q4_0,          32,   22,    0,   -1,  FiveBits,    16, Block       ) \
  X(  Q4_K,   q4_k,         256,  144,    0,    2,  Nibbles,      0, SuperMin    ) \
  X(  Q6_K,   q6_k,         256,  210,  208,   -1,  SixBits,     32, Halves      ) \
  X(  Q4_0,   q4_0,          32,   18,    0,   -1,  Nibbles,      8, Block       ) \
  X(  Q5_1,   q4_0,          32,   24,    0,    2,  FiveBits,     0, BlockMin    ) \
  X(  Q5_K,   q4_k,         256,  176,    0,    2,  FiveBits,     0, SuperMin    ) \
  X(  Q3_K,   q3_k,         256,  110,  108,   -1,  ThreeBits,    4, Halves      ) \
  X(  Q2_K,   q2_k,         256,   84,   80,   82,  TwoBits,      0, HalvesMin   ) \
  X(  IQ4_NL, iq4,           32,   18,    0,   -1,  Levels,       0, Block       ) \
  X(  IQ4_XS, iq4,          256,  136,    0,   -1,  Levels,       0, SuperOffset )
// clang-format on

#define GA_NAME(name, ...) name,
enum class Format : int { GA_FORMATS(GA_NAME) Count };
#undef GA_NAME
constexpr int kNumFormats = static_cast<int>(Format::Count);

// A line of the list.
struct FormatInfo {
  const char* name;
  int block;             // elements of k per block of a file
  int bytes;             // per block of a file
  int scale_at, min_at;  // where the halves of a block of a file lie, -1 = it has none
  Codes codes;
  int offset;  // code minus this is the integer that is multiplied
  Scales scales;
};

#define GA_INFO(name, family, block, bytes, scale_at, min_at, codes, offset, scales) \
  {#name, block, bytes, scale_at, min_at, Codes::codes, offset, Scales::scales},
constexpr FormatInfo kFormats[kNumFormats] = {GA_FORMATS(GA_INFO)};
#undef GA_INFO

constexpr const FormatInfo& info(Format format) { return kFormats[static_cast<int>(format)]; }

// Formats whose integer products with int8 activations are exact; the others are multiplied as floats.
constexpr bool is_quantised(Format format) { return info(format).codes != Codes::Values; }

// Formats with a scale for each half of a block of 32.
constexpr bool has_half_scales(Format format) {
  return info(format).scales == Scales::Halves || info(format).scales == Scales::HalvesMin;
}

// The combinations that `dots` of kernels/dots_*.hpp knows; products.hpp refuses to compile others.
constexpr bool has_dots(Format format) {
  const Codes codes = info(format).codes;
  const bool in_halves = codes == Codes::SixBits || codes == Codes::ThreeBits || codes == Codes::TwoBits;
  const bool is_signed = codes == Codes::Bytes || codes == Codes::Levels;
  return in_halves == has_half_scales(format) && !(is_signed && info(format).offset != 0);
}

// The exponent of a power of two, -1 for 0: offsets are subtracted by shifts.
constexpr int log2_of(int power) {
  int exponent = -1;
  for (; power != 0; power /= 2) ++exponent;
  return exponent;
}

constexpr std::size_t file_row_bytes(Format format, std::size_t k) {
  return k / info(format).block * info(format).bytes;
}

}  // namespace ga
