// F32, F16 and BF16: values as they are.
//
//   file   values along k
//   tile   [32 k][8 rows] values
//   kernel matmul_float: load_weight<Format> widens 8 rows of one k
#pragma once
#include <cstring>

#include "formats/halves.hpp"
#include "formats/tile.hpp"

namespace ga {

inline void pack_values(Format format, const std::uint8_t* src, int row, std::size_t count,
                        std::uint8_t* unit) {
  const std::size_t size = info(format).bytes;
  for (std::size_t k = 0; k < count; ++k) std::memcpy(unit + (k * kLanes + row) * size, src + k * size, size);
}

inline float plain_value(Format format, const std::uint8_t* values, int index) {
  if (format == Format::F16) return load_half_at(values + 2 * index);
  if (format == Format::BF16) return load_brain_at(values + 2 * index);
  float value;
  std::memcpy(&value, values + 4 * index, 4);
  return value;
}

}  // namespace ga
