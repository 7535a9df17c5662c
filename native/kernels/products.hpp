// Matrix products over the vectors of one instruction set. Included by body.hpp; see there.

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

// Scale and minimum of the rows of a tile for one block; those of Q2_K without its inner ones.
template <Kind K>
GA_INLINE void load_scales(const std::uint8_t* const* unit, int b, FW& scale, FW& min) {
  constexpr Geometry g = geometry(K);
  scale = halves_at(unit, g.scale);
  if constexpr (g.min >= 0) min = halves_at(unit, g.min);
  if constexpr (g.inner_mins >= 0) {
    scale = mul(scale, to_float(widen_at(unit, 8 * b)));
    min = neg(mul(min, to_float(widen_at(unit, g.inner_mins + 8 * b))));
  }
  if constexpr (K == Kind::Q2_K) min = neg(min);
  if constexpr (K == Kind::IQ4_XS) scale = mul(scale, to_float(plus(widen_at(unit, 8 * b), ints(-32))));
}

// R rows (one group) times the tiles of one vector with int8 activations. The first group fetches the tiles
// from memory and prefetches ahead (into the next tiles at the end: they lie one after the other); later
// groups find them in the cache. `step` is 0 where the last vector spans a tile that is not there: it reads
// the first twice.
template <Kind K, int R, bool First>
static inline void int8_rows(const Matmul& a, int tile, std::size_t step, int row) {
  constexpr Geometry g = geometry(K);
  constexpr int kPerUnit = g.tile_unit / kBlock, kAhead = 65536;
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
        for (int i = 0; i < g.tile_bytes; i += 64) prefetch(unit[t] + kAhead + i);
    for (int b = 0; b < kPerUnit; ++b) {
      FW scale, min;
      load_scales<K>(unit, b, scale, min);
      IW sum[R];
      dots<K, R>(unit, b, q, sums, sum);
      for (int r = 0; r < R; ++r) {
        acc[r] = fma(to_float(sum[r]), mul(scale, wide_set1(scales + r)), acc[r]);
        if constexpr (g.min >= 0 && K != Kind::Q2_K) acc[r] = fma(min, wide_set1(scaled_sums + r), acc[r]);
      }
      if constexpr (K == Kind::Q2_K) {
        min_dots<R>(unit, b, sums, sum);
        for (int r = 0; r < R; ++r) acc[r] = fma(to_float(sum[r]), mul(min, wide_set1(scales + r)), acc[r]);
      }
      q += kBlock * R;
      sums += 2 * R;
      scales += R;
      scaled_sums += R;
    }
    for (int t = 0; t < kWideTiles; ++t) unit[t] += g.tile_bytes;
  }
  for (int r = 0; r < R; ++r) put(a, row + r, tile, acc[r]);
}

template <Kind K, bool First, int R = kMostRows>
static inline void int8_group(const Matmul& a, int tile, std::size_t step, int row, int count) {
  if constexpr (R == 1)
    int8_rows<K, 1, First>(a, tile, step, row);
  else if (count == R)
    int8_rows<K, R, First>(a, tile, step, row);
  else
    int8_group<K, First, R - 1>(a, tile, step, row, count);
}

template <Kind K>
static void matmul_int8(const Matmul& a, int tile_begin, int tile_end) {
  const int groups = a.quant.groups();
  for (int tile = tile_begin; tile < tile_end; tile += kWideTiles) {
    const std::size_t step = tile + kWideTiles <= tile_end ? a.tile_bytes : 0;
    int8_group<K, true>(a, tile, step, 0, a.quant.group_start(1));
    for (int group = 1; group < groups; ++group) {
      const int row = a.quant.group_start(group);
      int8_group<K, false>(a, tile, step, row, a.quant.group_start(group + 1) - row);
    }
  }
}

// Rows of the f32 route in groups of about the same size, at most kMostRows each.
static inline int group_size(int rows_left) {
  const int groups = (rows_left + kMostRows - 1) / kMostRows;
  return (rows_left + groups - 1) / groups;
}

// R rows times T vectors of tiles with f32 activations: per block one chain of 32 fused multiply-adds, then
// one add. All quantised kinds share the functions for K = Q8_0; `kind` says which it is.
template <Kind K, int R, int T>
static inline void float_rows(const Matmul& a, Kind kind, int tile, std::size_t step, int row) {
  constexpr int kTiles = T * kWideTiles,
                kBytes = is_quantised(K) ? kBlock * kLanes * 4 : geometry(K).tile_bytes;
  FW total[T][R];
  for (auto& t : total)
    for (FW& f : t) f = wide_zero();
  const float* x = a.x + row * a.x_stride;
  for (int b = 0; b < a.blocks; ++b) {
    float scratch[is_quantised(K) ? kTiles * kBlock * kLanes : 1];
    const std::uint8_t* w[kTiles];
    for (int t = 0; t < kTiles; ++t) {
      const std::uint8_t* tiles = a.tiles + (tile - a.first_tile) * a.tile_bytes + t * step;
      if constexpr (is_quantised(K)) {
        unpack_block(kind, tiles, b, scratch + t * kBlock * kLanes);
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
        const FW weight = load_weight<K>(w + t * kWideTiles, k);
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

template <Kind K, int T, int R = kMostRows>
static inline void float_group(const Matmul& a, Kind kind, int tile, std::size_t step, int row, int count) {
  if constexpr (R == 1)
    float_rows<K, 1, T>(a, kind, tile, step, row);
  else if (count == R)
    float_rows<K, R, T>(a, kind, tile, step, row);
  else
    float_group<K, T, R - 1>(a, kind, tile, step, row, count);
}

template <Kind K>
static void float_tiles(const Matmul& a, Kind kind, int tile_begin, int tile_end) {
  constexpr int kTiles = 2 * kWideTiles;
  int tile = tile_begin;
  for (; tile < tile_end; tile += kTiles) {
    const bool two = tile + kTiles <= tile_end;
    for (int row = 0, count; row < a.rows; row += count) {
      count = group_size(a.rows - row);
      if (two) {
        float_group<K, 2>(a, kind, tile, a.tile_bytes, row, count);
        continue;
      }
      for (int t = tile; t < tile_end; t += kWideTiles)
        float_group<K, 1>(a, kind, t, t + kWideTiles <= tile_end ? a.tile_bytes : 0, row, count);
    }
  }
}

template <Kind K>
static void matmul_float(const Matmul& a, int tile_begin, int tile_end) {
  float_tiles<is_quantised(K) ? Kind::Q8_0 : K>(a, K, tile_begin, tile_end);
}
