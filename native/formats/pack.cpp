// From the blocks of a file into tiles.
#include <cstring>

#include "formats/codes.hpp"
#include "formats/families.hpp"

namespace ga {
namespace {

// One block of a file of one row into a zeroed unit.
template <Format F>
void pack_block(const std::uint8_t* src, int row, std::uint8_t* unit) {
  constexpr TileLayout tile = tile_layout(F);
  for (int b = 0; b < tile.unit / kBlock; ++b)
    for (int k = 0; k < kBlock; ++k)
      put_code<info(F).codes>(unit + tile.codes + b * tile.block_bytes, row, k, Family<F>::code(src, b, k));
  Family<F>::pack_scales(src, row, unit);
  std::memcpy(unit + tile.scale + 2 * row, src + info(F).scale_at, 2);
  if constexpr (tile.min >= 0) std::memcpy(unit + tile.min + 2 * row, src + info(F).min_at, 2);
}

template <Format F>
void pack_row(const std::uint8_t* src, int row, std::size_t k, std::uint8_t* unit) {
  constexpr TileLayout tile = tile_layout(F);
  for (std::size_t k0 = 0; k0 < k; k0 += tile.unit, unit += tile.bytes) {
    const std::uint8_t* from = src + file_row_bytes(F, k0);
    if constexpr (is_quantised(F)) {
      pack_block<F>(from, row, unit);
    } else {
      pack_values(F, from, row, k - k0 < tile.unit ? k - k0 : tile.unit, unit);
    }
  }
}

#define GA_PACK(name, ...) pack_row<Format::name>,
constexpr void (*kPackRow[kNumFormats])(const std::uint8_t*, int, std::size_t,
                                        std::uint8_t*) = {GA_FORMATS(GA_PACK)};
#undef GA_PACK

}  // namespace

void pack_tile(Format format, const std::uint8_t* const rows[kLanes], std::size_t k, std::uint8_t* tile) {
  std::memset(tile, 0, tile_bytes(format, k));
  for (int row = 0; row < kLanes; ++row)
    if (rows[row] != nullptr) kPackRow[static_cast<int>(format)](rows[row], row, k, tile);
}

}  // namespace ga
