// Q8_0: 32 signed bytes share a half. value = d * code.
//
//   file   f16 d | 32 int8                            34 bytes
//   tile   8 quads of int8 | 8 f16 d                 272 bytes
//   kernel products of Codes::Bytes: signed_quads (dots_bytes.hpp), signed_dots (dots_pairs.hpp)
#pragma once
#include "formats/family.hpp"

namespace ga {

template <>
struct Family<Format::Q8_0> : OneScale {
  static int code(const std::uint8_t* src, int, int k) { return src[2 + k]; }
};

}  // namespace ga
