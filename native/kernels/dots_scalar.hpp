// Integer dot products of a block in plain C++, one code after the other. Included after wide_scalar.hpp.

// Inner scale of one half of a block.
template <Format F>
static inline int half_scale(const std::uint8_t* unit, int b, int row, int half) {
  const std::uint8_t byte = unit[16 * b + 2 * row + half];
  constexpr bool kHasMin = info(F).scales == Scales::HalvesMin;
  return kHasMin ? byte & 15 : static_cast<std::int8_t>(byte);
}

template <Format F, int R>
static inline void dots(const std::uint8_t* const* unit, int b, const std::int8_t* q, const std::int16_t*,
                        IW (&out)[R]) {
  for (int row = 0; row < kLanes; ++row) {
    int w[kBlock];
    unpack_integers(F, unit[0], b, row, w);
    for (int r = 0; r < R; ++r) {
      int half[2] = {0, 0};
      for (int k = 0; k < kBlock; ++k) half[k / 16] += w[k] * q[(k / 4 * R + r) * 4 + k % 4];
      if constexpr (has_half_scales(F))
        for (int h = 0; h < 2; ++h) half[h] *= half_scale<F>(unit[0], b, row, h);
      out[r].v[row] = half[0] + half[1];
    }
  }
}

// Sums of activations times the minima of halves (Scales::HalvesMin).
template <int R>
static inline void min_dots(const std::uint8_t* const* unit, int b, const std::int16_t* sums, IW (&out)[R]) {
  for (int row = 0; row < kLanes; ++row) {
    const std::uint8_t* pair = unit[0] + 16 * b + 2 * row;
    for (int r = 0; r < R; ++r)
      out[r].v[row] = (pair[0] >> 4) * sums[2 * r] + (pair[1] >> 4) * sums[2 * r + 1];
  }
}
