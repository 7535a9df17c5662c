// Matrix products over the vectors of one instruction set. Included by all.hpp; see there. `dots` and
// `min_dots` come from dots_bytes.hpp, dots_pairs.hpp or dots_scalar.hpp.

template <Format F>
GA_INLINE FW load_weight(const std::uint8_t* const* p, int k) {
  if constexpr (F == Format::F16)
    return halves_at(p, k * 16);
  else if constexpr (F == Format::BF16)
    return brains_at(p, k * 16);
  else
    return floats_at(p, k * 32);
}

// The results of one row for the tiles that a vector spans.
GA_INLINE void put(const Matmul& a, int row, int tile, FW value) {
  float* out = a.out + row * a.out_stride + tile * kLanes;
  const float* bias = a.bias == nullptr ? nullptr : a.bias + tile * kLanes;
  if ((tile + kWideTiles) * kLanes <= a.n) {
    if (bias != nullptr) value = add(value, wide_load(bias));
    store_tiles(out, a.accumulate ? add(wide_load(out), value) : value);
    return;
  }
  float lanes[kWideTiles * kLanes];
  store_tiles(lanes, value);
  for (int i = 0; tile * kLanes + i < a.n && i < kWideTiles * kLanes; ++i) {
    const float v = bias != nullptr ? lanes[i] + bias[i] : lanes[i];
    out[i] = a.accumulate ? out[i] + v : v;
  }
}

// Scale and minimum of the rows of a tile for one block; without those of halves, which `dots` and `min_dots`
// apply.
template <Format F>
GA_INLINE void load_scales(const std::uint8_t* const* unit, int b, FW& scale, FW& min) {
  constexpr TileLayout kTile = tile_layout(F);
  scale = halves_at(unit, kTile.scale);
  if constexpr (kTile.min >= 0) min = halves_at(unit, kTile.min);
  if constexpr (kTile.inner_mins >= 0) {
    scale = mul(scale, to_float(widen_at(unit, 8 * b)));
    min = neg(mul(min, to_float(widen_at(unit, kTile.inner_mins + 8 * b))));
  }
  if constexpr (info(F).scales == Scales::HalvesMin) min = neg(min);
  if constexpr (info(F).scales == Scales::SuperOffset)
    scale = mul(scale, to_float(plus(widen_at(unit, 8 * b), ints(-32))));
}

// R rows (one group) times the tiles of one vector with int8 activations. The first group fetches the tiles
// from memory and prefetches ahead (into the next tiles at the end: they lie one after the other); later
// groups find them in the cache. `step` is 0 where the last vector spans a tile that is not there: it reads
// the first twice.
template <Format F, int R, bool First>
static inline void int8_rows(const Matmul& a, int tile, std::size_t step, int row) {
  constexpr TileLayout kTile = tile_layout(F);
  constexpr bool kMinOfHalves = info(F).scales == Scales::HalvesMin;
  constexpr int kPerUnit = kTile.unit / kBlock, kAhead = 65536;
  const std::uint8_t* unit[kWideTiles];
  for (int t = 0; t < kWideTiles; ++t) unit[t] = a.tiles + (tile - a.first_tile) * a.tile_bytes + t * step;
  const std::size_t at = row * a.quant.k;
  const std::int8_t* q = a.quant.q + at;
  const std::int16_t* sums = a.quant.sums + at / 16;
  const float *scales = a.quant.scale + at / kBlock, *scaled_sums = a.quant.scaled_sum + at / kBlock;
  FW acc[R];
  for (FW& f : acc) f = wide_zero();
  for (int block = 0; block < a.blocks; block += kPerUnit) {
    if constexpr (First)
      for (int t = 0; t < kWideTiles; ++t)
        for (int i = 0; i < kTile.bytes; i += 64) prefetch(unit[t] + kAhead + i);
    for (int b = 0; b < kPerUnit; ++b) {
      FW scale, min;
      load_scales<F>(unit, b, scale, min);
      IW sum[R];
      dots<F, R>(unit, b, q, sums, sum);
      for (int r = 0; r < R; ++r) {
        acc[r] = fma(to_float(sum[r]), mul(scale, wide_set1(scales + r)), acc[r]);
        if constexpr (kTile.min >= 0 && !kMinOfHalves) acc[r] = fma(min, wide_set1(scaled_sums + r), acc[r]);
      }
      if constexpr (kMinOfHalves) {
        min_dots<R>(unit, b, sums, sum);
        for (int r = 0; r < R; ++r) acc[r] = fma(to_float(sum[r]), mul(min, wide_set1(scales + r)), acc[r]);
      }
      q += kBlock * R;
      sums += 2 * R;
      scales += R;
      scaled_sums += R;
    }
    for (int t = 0; t < kWideTiles; ++t) unit[t] += kTile.bytes;
  }
  for (int r = 0; r < R; ++r) put(a, row + r, tile, acc[r]);
}

template <Format F, bool First, int R = kMostRows>
static inline void int8_group(const Matmul& a, int tile, std::size_t step, int row, int count) {
  if constexpr (R == 1)
    int8_rows<F, 1, First>(a, tile, step, row);
  else if (count == R)
    int8_rows<F, R, First>(a, tile, step, row);
  else
    int8_group<F, First, R - 1>(a, tile, step, row, count);
}

template <Format F>
static void matmul_int8(const Matmul& a, int tile_begin, int tile_end) {
  static_assert(has_dots(F), "formats/list.hpp combines codes, an offset and scales that dots does not know");
  const int groups = a.quant.groups();
  for (int tile = tile_begin; tile < tile_end; tile += kWideTiles) {
    const std::size_t step = tile + kWideTiles <= tile_end ? a.tile_bytes : 0;
    int8_group<F, true>(a, tile, step, 0, a.quant.group_start(1));
    for (int group = 1; group < groups; ++group) {
      const int row = a.quant.group_start(group);
      int8_group<F, false>(a, tile, step, row, a.quant.group_start(group + 1) - row);
    }
  }
}

// Rows of the f32 route in groups of about the same size, at most kMostRows each.
static inline int group_size(int rows_left) {
  const int groups = (rows_left + kMostRows - 1) / kMostRows;
  return (rows_left + groups - 1) / groups;
}

// R rows times T vectors of tiles with f32 activations: per block one chain of 32 fused multiply-adds, then
// one add. All quantised formats share the functions for F = Q8_0; `format` says which it is.
template <Format F, int R, int T>
static inline void float_rows(const Matmul& a, Format format, int tile, std::size_t step, int row) {
  constexpr int kTiles = T * kWideTiles,
                kBytes = is_quantised(F) ? kBlock * kLanes * 4 : tile_layout(F).bytes;
  FW total[T][R];
  for (auto& t : total)
    for (FW& f : t) f = wide_zero();
  const float* x = a.x + row * a.x_stride;
  for (int b = 0; b < a.blocks; ++b) {
    float scratch[is_quantised(F) ? kTiles * kBlock * kLanes : 1];
    const std::uint8_t* w[kTiles];
    for (int t = 0; t < kTiles; ++t) {
      const std::uint8_t* tiles = a.tiles + (tile - a.first_tile) * a.tile_bytes + t * step;
      if constexpr (is_quantised(F)) {
        unpack_block(format, tiles, b, scratch + t * kBlock * kLanes);
        w[t] = reinterpret_cast<const std::uint8_t*>(scratch + t * kBlock * kLanes);
      } else {
        w[t] = tiles + static_cast<std::size_t>(b) * kBytes;
        for (int i = 0; i < kBytes; i += 64) prefetch(w[t] + 2048 + i);
      }
    }
    FW sum[T][R];
    for (auto& t : sum)
      for (FW& f : t) f = wide_zero();
    for (int k = 0; k < kBlock; ++k) {
      for (int t = 0; t < T; ++t) {
        const FW weight = load_weight<F>(w + t * kWideTiles, k);
        for (int r = 0; r < R; ++r) {
          const FW xk = wide_set1(x + r * a.x_stride + b * kBlock + k);
          sum[t][r] = fma(weight, xk, sum[t][r]);
        }
      }
    }
    for (int t = 0; t < T; ++t)
      for (int r = 0; r < R; ++r) total[t][r] = add(total[t][r], sum[t][r]);
  }
  for (int t = 0; t < T; ++t)
    for (int r = 0; r < R; ++r) put(a, row + r, tile + t * kWideTiles, total[t][r]);
}

template <Format F, int T, int R = kMostRows>
static inline void float_group(const Matmul& a, Format format, int tile, std::size_t step, int row,
                               int count) {
  if constexpr (R == 1)
    float_rows<F, 1, T>(a, format, tile, step, row);
  else if (count == R)
    float_rows<F, R, T>(a, format, tile, step, row);
  else
    float_group<F, T, R - 1>(a, format, tile, step, row, count);
}

template <Format F>
static void float_tiles(const Matmul& a, Format format, int tile_begin, int tile_end) {
  constexpr int kTiles = 2 * kWideTiles;
  int tile = tile_begin;
  for (; tile < tile_end; tile += kTiles) {
    const bool two = tile + kTiles <= tile_end;
    for (int row = 0, count; row < a.rows; row += count) {
      count = group_size(a.rows - row);
      if (two) {
        float_group<F, 2>(a, format, tile, a.tile_bytes, row, count);
        continue;
      }
      for (int t = tile; t < tile_end; t += kWideTiles)
        float_group<F, 1>(a, format, t, t + kWideTiles <= tile_end ? a.tile_bytes : 0, row, count);
    }
  }
}

template <Format F>
static void matmul_float(const Matmul& a, int tile_begin, int tile_end) {
  float_tiles<is_quantised(F) ? Format::Q8_0 : F>(a, F, tile_begin, tile_end);
}
