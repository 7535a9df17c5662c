// Values of weight tiles, and halves.
#include "tiles.hpp"

#include <bit>
#include <cstring>

namespace ga {
namespace {

float load_half(const std::uint8_t* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, 2);
  return half_to_float(bits);
}

int get_nibble(const std::uint8_t* block, int row, int k) {
  const int byte = block[quad_byte(row, k % 16)];
  return k < 16 ? byte & 15 : byte >> 4;
}
int get_bit(const std::uint8_t* bits, int row, int k) { return bits[quad_byte(row, k % 4)] >> (k / 4) & 1; }
int get_pair(const std::uint8_t* pairs, int row, int k) {
  return pairs[32 * (k / 16) + quad_byte(row, k % 4)] >> (2 * (k / 4 % 4)) & 3;
}

const std::uint8_t* unit_of(const Geometry& g, const std::uint8_t* tile, int& block) {
  const int per_unit = g.tile_unit / kBlock;
  const std::uint8_t* unit = tile + static_cast<std::size_t>(block / per_unit) * g.tile_bytes;
  block %= per_unit;
  return unit;
}

float float_value(Kind kind, const std::uint8_t* values, int index) {
  if (kind == Kind::F32) {
    float value;
    std::memcpy(&value, values + 4 * index, 4);
    return value;
  }
  if (kind == Kind::F16) return load_half(values + 2 * index);
  std::uint16_t bits;
  std::memcpy(&bits, values + 2 * index, 2);
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Scales and minima of both halves of block `b` of a unit.
struct Steps {
  float scale[2], min[2];
};
Steps steps_of(Kind kind, const Geometry& g, const std::uint8_t* unit, int b, int row) {
  const float d = load_half(unit + g.scale + 2 * row),
              m = g.min < 0 ? 0.0f : load_half(unit + g.min + 2 * row);
  const std::uint8_t *inner = unit + 8 * b + row, *pair = unit + 16 * b + 2 * row;
  switch (kind) {
    case Kind::Q4_K:
    case Kind::Q5_K: {
      const float scale = d * inner[0], min = -(m * inner[g.inner_mins]);
      return {{scale, scale}, {min, min}};
    }
    case Kind::IQ4_XS: {
      const float scale = d * static_cast<float>(inner[0] - 32);
      return {{scale, scale}, {m, m}};
    }
    case Kind::Q3_K:
    case Kind::Q6_K:
      return {{d * static_cast<std::int8_t>(pair[0]), d * static_cast<std::int8_t>(pair[1])}, {m, m}};
    case Kind::Q2_K:
      return {{d * (pair[0] & 15), d * (pair[1] & 15)}, {-(m * (pair[0] >> 4)), -(m * (pair[1] >> 4))}};
    default:
      return {{d, d}, {m, m}};
  }
}

}  // namespace

float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31, mantissa = bits & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // subnormal or zero, exact
  return sign ? -magnitude : magnitude;
}

std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);  // NaN
  if (magnitude >= 0x477ff000u)
    return static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds to 65,536 or more
  if (magnitude <
      0x38800000u) {  // below 2^-14: a multiple of 2^-24; adding 0.5 rounds to one, in the low bits
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1);
  return static_cast<std::uint16_t>(sign | (rounded - 0x38000000u) >> 13);
}

void unpack_integers(Kind kind, const std::uint8_t* tile, int block, int row, int out[kBlock]) {
  const Geometry g = geometry(kind);
  const std::uint8_t* unit = unit_of(g, tile, block);
  const std::uint8_t* p = unit + g.codes + block * g.block_bytes;
  for (int k = 0; k < kBlock; ++k) {
    switch (kind) {
      case Kind::Q8_0:
        out[k] = static_cast<std::int8_t>(p[quad_byte(row, k)]);
        break;
      case Kind::Q4_0:
        out[k] = get_nibble(p, row, k) - 8;
        break;
      case Kind::Q5_0:
        out[k] = (get_nibble(p, row, k) | get_bit(p + 128, row, k) << 4) - 16;
        break;
      case Kind::Q5_1:
      case Kind::Q5_K:
        out[k] = get_nibble(p, row, k) | get_bit(p + 128, row, k) << 4;
        break;
      case Kind::Q6_K:
        out[k] = (get_nibble(p, row, k) | get_pair(p + 128, row, k) << 4) - 32;
        break;
      case Kind::Q3_K:
        out[k] = (get_pair(p, row, k) | get_bit(p + 64, row, k) << 2) - 4;
        break;
      case Kind::Q2_K:
        out[k] = get_pair(p, row, k);
        break;
      case Kind::IQ4_NL:
      case Kind::IQ4_XS:
        out[k] = kLevels[get_nibble(p, row, k)];
        break;
      default:  // Q4_1, Q4_K
        out[k] = get_nibble(p, row, k);
    }
  }
}

void unpack_row(Kind kind, const std::uint8_t* tile, int block, int row, float* out, int stride) {
  const Geometry g = geometry(kind);
  if (!is_quantised(kind)) {
    const std::uint8_t* values = tile + static_cast<std::size_t>(block) * g.tile_bytes;
    for (int k = 0; k < kBlock; ++k) out[k * stride] = float_value(kind, values, k * kLanes + row);
    return;
  }
  int w[kBlock];
  unpack_integers(kind, tile, block, row, w);
  const std::uint8_t* unit = unit_of(g, tile, block);
  const Steps steps = steps_of(kind, g, unit, block, row);
  for (int k = 0; k < kBlock; ++k) {
    const float product = steps.scale[k / 16] * static_cast<float>(w[k]);
    out[k * stride] = g.min >= 0 ? product + steps.min[k / 16] : product;
  }
}

void unpack_block(Kind kind, const std::uint8_t* tile, int block, float* out) {
  for (int row = 0; row < kLanes; ++row) unpack_row(kind, tile, block, row, out + row, kLanes);
}

}  // namespace ga
