#include "tiles.hpp"

#include <bit>
#include <cstring>

namespace ga {
namespace {

std::uint16_t load16(const std::uint8_t* p) {
  std::uint16_t v;
  std::memcpy(&v, p, 2);
  return v;
}
float load_half(const std::uint8_t* p) { return half_to_float(load16(p)); }

// Where byte `k` of `row` lies among the eight 32-byte quads of a block.
constexpr int quad_byte(int row, int k) { return 32 * (k / 4) + 4 * row + k % 4; }

void put_nibble(std::uint8_t* nibbles, int row, int k, int value) {
  nibbles[quad_byte(row, k % 16)] |= static_cast<std::uint8_t>(k < 16 ? value : value << 4);
}
int get_nibble(const std::uint8_t* nibbles, int row, int k) {
  const int byte = nibbles[quad_byte(row, k % 16)];
  return k < 16 ? byte & 15 : byte >> 4;
}

// Fields of the super-block kinds.
struct Q4KTile {
  static constexpr int scales = 0, mins = 64, d = 128, dmin = 144, blocks = 160, block_bytes = 128;
};
struct Q6KTile {
  static constexpr int scales = 0, d = 128, blocks = 144, block_bytes = 192;
};

// 6-bit scale and minimum number j of a Q4_K super-block (the layout of ggml's block_q4_K).
void q4k_scale_min(const std::uint8_t* s, int j, int& scale, int& min) {
  if (j < 4) {
    scale = s[j] & 63;
    min = s[j + 4] & 63;
  } else {
    scale = (s[j + 4] & 15) | (s[j - 4] >> 6 << 4);
    min = (s[j + 4] >> 4) | (s[j] >> 6 << 4);
  }
}

// Each pack_* writes the share of one row into a zeroed unit (one block, or one super-block).
void pack_float(Kind kind, const std::uint8_t* src, int row, std::size_t count, std::uint8_t* unit) {
  const std::size_t size = kind == Kind::F32 ? 4 : 2;
  for (std::size_t k = 0; k < count; ++k) std::memcpy(unit + (k * kLanes + row) * size, src + k * size, size);
}

void pack_q8_0(const std::uint8_t* src, int row, std::uint8_t* unit) {
  for (int k = 0; k < 32; ++k) unit[quad_byte(row, k)] = src[2 + k];
  std::memcpy(unit + 256 + 2 * row, src, 2);
}

void pack_q4_1(const std::uint8_t* src, int row, std::uint8_t* unit) {
  for (int k = 0; k < 32; ++k) put_nibble(unit, row, k, k < 16 ? src[4 + k] & 15 : src[4 + k - 16] >> 4);
  std::memcpy(unit + 128 + 2 * row, src, 2);
  std::memcpy(unit + 144 + 2 * row, src + 2, 2);
}

void put_five_bits(std::uint8_t* block, int row, int k, int value) {
  put_nibble(block, row, k, value & 15);
  block[128 + 4 * row + k % 4] |= static_cast<std::uint8_t>((value >> 4) << (k / 4));
}

void pack_q5_0(const std::uint8_t* src, int row, std::uint8_t* unit) {
  std::uint32_t high;
  std::memcpy(&high, src + 2, 4);
  for (int k = 0; k < 32; ++k) {
    const int nibble = k < 16 ? src[6 + k] & 15 : src[6 + k - 16] >> 4;
    put_five_bits(unit, row, k, nibble | static_cast<int>(high >> k & 1) << 4);
  }
  std::memcpy(unit + 160 + 2 * row, src, 2);
}

// As kind Q5_0: its offset is 16 where this format's is 8.
void pack_q4_0(const std::uint8_t* src, int row, std::uint8_t* unit) {
  for (int k = 0; k < 32; ++k)
    put_five_bits(unit, row, k, (k < 16 ? src[2 + k] & 15 : src[2 + k - 16] >> 4) + 8);
  std::memcpy(unit + 160 + 2 * row, src, 2);
}

// As kind Q8_0: codes stand for numbers of ggml's table, which are bytes.
void pack_iq4_nl(const std::uint8_t* src, int row, std::uint8_t* unit) {
  constexpr std::int8_t table[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};
  for (int k = 0; k < 32; ++k)
    unit[quad_byte(row, k)] =
        static_cast<std::uint8_t>(table[k < 16 ? src[2 + k] & 15 : src[2 + k - 16] >> 4]);
  std::memcpy(unit + 256 + 2 * row, src, 2);
}

void pack_q4_k(const std::uint8_t* src, int row, std::uint8_t* unit) {
  using T = Q4KTile;
  std::memcpy(unit + T::d + 2 * row, src, 2);
  std::memcpy(unit + T::dmin + 2 * row, src + 2, 2);
  for (int b = 0; b < 8; ++b) {
    int scale, min;
    q4k_scale_min(src + 4, b, scale, min);
    unit[T::scales + 8 * b + row] = static_cast<std::uint8_t>(scale);
    unit[T::mins + 8 * b + row] = static_cast<std::uint8_t>(min);
    const std::uint8_t* quants = src + 16 + 32 * (b / 2);  // 64 elements share 32 bytes: low nibbles first
    for (int k = 0; k < 32; ++k)
      put_nibble(unit + T::blocks + b * T::block_bytes, row, k, b % 2 == 0 ? quants[k] & 15 : quants[k] >> 4);
  }
}

void put_six_bits(std::uint8_t* block, int row, int k, int value) {
  put_nibble(block, row, k, value & 15);
  block[128 + 32 * (k / 16) + 4 * row + k % 4] |=
      static_cast<std::uint8_t>((value >> 4) << (2 * (k / 4 % 4)));
}

void pack_q6_k(const std::uint8_t* src, int row, std::uint8_t* unit) {
  using T = Q6KTile;
  const std::uint8_t *low = src, *high = src + 128, *scales = src + 192;
  std::memcpy(unit + T::d + 2 * row, src + 208, 2);
  for (int b = 0; b < 8; ++b) {
    // Half h of the super-block (128 elements) has 64 bytes of low nibbles and 32 bytes of 2-bit fields;
    // its four groups of 32 elements take (low half, low half, high half, high half) nibbles.
    const int h = b / 4, group = b % 4;
    std::uint8_t* block = unit + T::blocks + b * T::block_bytes;
    for (int k = 0; k < 32; ++k) {
      const int byte = low[64 * h + 32 * (group % 2) + k];
      const int bits = high[32 * h + k] >> (2 * group) & 3;
      put_six_bits(block, row, k, (group < 2 ? byte & 15 : byte >> 4) | bits << 4);
    }
    unit[T::scales + 16 * b + 2 * row] = scales[2 * b];
    unit[T::scales + 16 * b + 2 * row + 1] = scales[2 * b + 1];
  }
}

// As kind Q6_K: codes from -4 to 3, and 6-bit scales with an offset of 32 (the layout of ggml's block_q3_K).
void pack_q3_k(const std::uint8_t* src, int row, std::uint8_t* unit) {
  using T = Q6KTile;
  const std::uint8_t *thirds = src, *low = src + 32, *scales = src + 96;
  std::memcpy(unit + T::d + 2 * row, src + 108, 2);
  for (int b = 0; b < 8; ++b) {
    std::uint8_t* block = unit + T::blocks + b * T::block_bytes;
    for (int k = 0; k < 32; ++k) {
      const int two = low[32 * (b / 4) + k] >> (2 * (b % 4)) & 3, third = thirds[k] >> b & 1;
      put_six_bits(block, row, k, two + 4 * third - 4 + 32);
    }
    for (int half = 0; half < 2; ++half) {
      // Sixteen scales: eight bytes of low halves, first 0 to 7, then 8 to 15; four bytes of pairs of high
      // bits.
      const int j = 2 * b + half;
      const int nibble = j < 8 ? scales[j] & 15 : scales[j - 8] >> 4,
                high = scales[8 + j % 4] >> (2 * (j / 4)) & 3;
      unit[T::scales + 16 * b + 2 * row + half] = static_cast<std::uint8_t>((nibble | high << 4) - 32);
    }
  }
}

const std::uint8_t* block_start(Kind kind, const std::uint8_t* tile, int block) {
  switch (kind) {
    case Kind::Q4_K:
      return tile + block / 8 * geometry(kind).tile_bytes + Q4KTile::blocks +
             block % 8 * Q4KTile::block_bytes;
    case Kind::Q6_K:
      return tile + block / 8 * geometry(kind).tile_bytes + Q6KTile::blocks +
             block % 8 * Q6KTile::block_bytes;
    default:
      return tile + static_cast<std::size_t>(block) * geometry(kind).tile_bytes;
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

void pack_tile(Format format, const std::uint8_t* const rows[kLanes], std::size_t k, std::uint8_t* tile) {
  const Kind kind = layout(format).kind;
  const Geometry g = geometry(kind);
  std::memset(tile, 0, tile_bytes(kind, k));
  for (int row = 0; row < kLanes; ++row) {
    if (rows[row] == nullptr) continue;
    for (std::size_t k0 = 0, u = 0; k0 < k; k0 += g.tile_unit, ++u) {
      std::uint8_t* unit = tile + u * g.tile_bytes;
      const std::uint8_t* src = rows[row] + file_row_bytes(format, k0);
      const std::size_t count = k - k0 < static_cast<std::size_t>(g.tile_unit) ? k - k0 : g.tile_unit;
      switch (format) {
        case Format::Q8_0:
          pack_q8_0(src, row, unit);
          break;
        case Format::Q4_1:
          pack_q4_1(src, row, unit);
          break;
        case Format::Q5_0:
          pack_q5_0(src, row, unit);
          break;
        case Format::Q4_K:
          pack_q4_k(src, row, unit);
          break;
        case Format::Q6_K:
          pack_q6_k(src, row, unit);
          break;
        case Format::Q4_0:
          pack_q4_0(src, row, unit);
          break;
        case Format::IQ4_NL:
          pack_iq4_nl(src, row, unit);
          break;
        case Format::Q3_K:
          pack_q3_k(src, row, unit);
          break;
        default:
          pack_float(kind, src, row, count, unit);
      }
    }
  }
}

void unpack_integers(Kind kind, const std::uint8_t* tile, int block, int row, int out[kBlock]) {
  const std::uint8_t* p = block_start(kind, tile, block);
  for (int k = 0; k < kBlock; ++k) {
    switch (kind) {
      case Kind::Q8_0:
        out[k] = static_cast<std::int8_t>(p[quad_byte(row, k)]);
        break;
      case Kind::Q5_0: {
        const int fifth = p[128 + 4 * row + k % 4] >> (k / 4) & 1;
        out[k] = (get_nibble(p, row, k) | fifth << 4) - 16;
        break;
      }
      case Kind::Q6_K: {
        const int bits = p[128 + 32 * (k / 16) + 4 * row + k % 4] >> (2 * (k / 4 % 4)) & 3;
        out[k] = (get_nibble(p, row, k) | bits << 4) - 32;
        break;
      }
      default:
        out[k] = get_nibble(p, row, k);
    }
  }
}

void unpack_row(Kind kind, const std::uint8_t* tile, int block, int row, float* out, int stride) {
  const std::uint8_t* p = block_start(kind, tile, block);
  if (!is_quantised(kind)) {
    for (int k = 0; k < kBlock; ++k) {
      const int i = k * kLanes + row;
      float& value = out[k * stride];
      if (kind == Kind::F32)
        std::memcpy(&value, p + 4 * i, 4);
      else if (kind == Kind::F16)
        value = load_half(p + 2 * i);
      else
        value = std::bit_cast<float>(static_cast<std::uint32_t>(load16(p + 2 * i)) << 16);
    }
    return;
  }
  int w[kBlock];
  unpack_integers(kind, tile, block, row, w);
  const std::uint8_t* unit = tile + block / 8 * geometry(kind).tile_bytes;  // of the super-block kinds
  const int b = block % 8;
  float scales[2], min = 0.0f;  // of both halves
  switch (kind) {
    case Kind::Q8_0:
      scales[0] = load_half(p + 256 + 2 * row);
      break;
    case Kind::Q5_0:
      scales[0] = load_half(p + 160 + 2 * row);
      break;
    case Kind::Q4_1:
      scales[0] = load_half(p + 128 + 2 * row);
      min = load_half(p + 144 + 2 * row);
      break;
    case Kind::Q4_K:
      scales[0] = load_half(unit + Q4KTile::d + 2 * row) * unit[Q4KTile::scales + 8 * b + row];
      min = -(load_half(unit + Q4KTile::dmin + 2 * row) * unit[Q4KTile::mins + 8 * b + row]);
      break;
    default:  // Q6_K
      for (int h = 0; h < 2; ++h)
        scales[h] = load_half(unit + Q6KTile::d + 2 * row) *
                    static_cast<std::int8_t>(unit[Q6KTile::scales + 16 * b + 2 * row + h]);
  }
  if (kind != Kind::Q6_K) scales[1] = scales[0];
  const bool has_min = kind == Kind::Q4_1 || kind == Kind::Q4_K;
  for (int k = 0; k < kBlock; ++k) {
    const float product = scales[k / 16] * static_cast<float>(w[k]);
    out[k * stride] = has_min ? product + min : product;
  }
}

void unpack_block(Kind kind, const std::uint8_t* tile, int block, float* out) {
  for (int row = 0; row < kLanes; ++row) unpack_row(kind, tile, block, row, out + row, kLanes);
}

}  // namespace ga
