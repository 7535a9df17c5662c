// Values of weight tiles.
#include "formats/codes.hpp"
#include "formats/families.hpp"

namespace ga {
namespace {

// The unit that holds a block; `block` becomes its number there.
const std::uint8_t* unit_of(const TileLayout& layout, const std::uint8_t* tile, int& block) {
  const int per_unit = layout.unit / kBlock;
  const std::uint8_t* unit = tile + static_cast<std::size_t>(block / per_unit) * layout.bytes;
  block %= per_unit;
  return unit;
}

template <Format F>
Steps steps_of(const std::uint8_t* unit, int b, int row) {
  constexpr TileLayout layout = tile_layout(F);
  if constexpr (is_quantised(F)) {
    const float d = load_half_at(unit + layout.scale + 2 * row);
    const float m = layout.min < 0 ? 0.0f : load_half_at(unit + layout.min + 2 * row);
    return Family<F>::steps(unit, b, row, d, m);
  } else {
    return {};
  }
}

#define GA_STEPS(name, ...) steps_of<Format::name>,
constexpr Steps (*kSteps[kNumFormats])(const std::uint8_t*, int, int) = {GA_FORMATS(GA_STEPS)};
#undef GA_STEPS

}  // namespace

void unpack_integers(Format format, const std::uint8_t* tile, int block, int row, int out[kBlock]) {
  const TileLayout layout = tile_layout(format);
  const std::uint8_t* unit = unit_of(layout, tile, block);
  const std::uint8_t* codes = unit + layout.codes + block * layout.block_bytes;
  for (int k = 0; k < kBlock; ++k) out[k] = get_code(info(format).codes, codes, row, k) - info(format).offset;
}

void unpack_row(Format format, const std::uint8_t* tile, int block, int row, float* out, int stride) {
  const TileLayout layout = tile_layout(format);
  if (!is_quantised(format)) {
    const std::uint8_t* values = tile + static_cast<std::size_t>(block) * layout.bytes;
    for (int k = 0; k < kBlock; ++k) out[k * stride] = plain_value(format, values, k * kLanes + row);
    return;
  }
  int w[kBlock];
  unpack_integers(format, tile, block, row, w);
  const std::uint8_t* unit = unit_of(layout, tile, block);
  const Steps steps = kSteps[static_cast<int>(format)](unit, block, row);
  for (int k = 0; k < kBlock; ++k) {
    const float product = steps.scale[k / 16] * static_cast<float>(w[k]);
    out[k * stride] = layout.min >= 0 ? product + steps.min[k / 16] : product;
  }
}

void unpack_block(Format format, const std::uint8_t* tile, int block, float* out) {
  for (int row = 0; row < kLanes; ++row) unpack_row(format, tile, block, row, out + row, kLanes);
}

}  // namespace ga
