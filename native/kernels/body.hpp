// The kernels, written once over eight lanes. Included after a lanes_*.hpp inside the namespace of one
// instruction set; no std templates and no shared inline functions in here, so that the linker can never
// merge code of one instruction set into another.
//
// The order of every accumulation is fixed here: an output element is summed block by block along k, each
// block as one fused multiply-add chain (f32 route) or one exact integer (int8 route). Nothing depends on the
// number of rows, on how rows are grouped or on which tiles a worker gets.

// e^x, relative error under 2e-7; x is clamped to [-87, 88]. V: any vector of floats.
template <class V>
static inline V exp_lanes(V x) {
  x = min(max(x, all<V>(-87.0f)), all<V>(88.0f));
  const V magic = all<V>(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const V n = sub(fma(x, all<V>(1.44269504f), magic), magic);
  V r = fma(n, all<V>(-0.693145752f), x);  // ln 2 in two parts, the first with few bits
  r = fma(n, all<V>(-1.42860682e-6f), r);
  V p = all<V>(1.0f / 5040);               // Taylor to r^7; |r| <= 0.347
  p = fma(p, r, all<V>(1.0f / 720));
  p = fma(p, r, all<V>(1.0f / 120));
  p = fma(p, r, all<V>(1.0f / 24));
  p = fma(p, r, all<V>(1.0f / 6));
  p = fma(p, r, all<V>(0.5f));
  p = fma(p, r, all<V>(1.0f));
  p = fma(p, r, all<V>(1.0f));
  return mul(p, pow2(n));
}
// tanh by e^2x - 1, which keeps its relative accuracy where x is small.
static inline F8 tanh8(F8 x) {
  x = min(max(add(x, x), set1(-40.0f)), set1(40.0f));
  const F8 magic = set1(12582912.0f), one = set1(1.0f);
  const F8 n = sub(fma(x, set1(1.44269504f), magic), magic);
  F8 r = fma(n, set1(-0.693145752f), x);
  r = fma(n, set1(-1.42860682e-6f), r);
  F8 p = set1(1.0f / 5040);  // (e^r - 1) / r
  p = fma(p, r, set1(1.0f / 720));
  p = fma(p, r, set1(1.0f / 120));
  p = fma(p, r, set1(1.0f / 24));
  p = fma(p, r, set1(1.0f / 6));
  p = fma(p, r, set1(0.5f));
  p = fma(p, r, one);
  const F8 power = pow2(n), z = fma(power, mul(p, r), sub(power, one));
  return div(z, add(z, set1(2.0f)));
}
static inline F8 capped(F8 x, float cap) { return mul(tanh8(div(x, set1(cap))), set1(cap)); }
static inline F8 exp8(F8 x) { return exp_lanes(x); }
static inline float exp1(float x) {
  float lanes[8];
  store(lanes, exp8(set1(x)));
  return lanes[0];
}

// Lanes combined in one fixed order.
static inline float sum_lanes(F8 a) {
  float v[8];
  store(v, a);
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}
static inline float max_lanes(F8 a) {
  float v[8];
  store(v, a);
  float m = v[0];
  for (int i = 1; i < 8; ++i) m = v[i] > m ? v[i] : m;
  return m;
}

// 1 / sqrt(mean square + eps) of a row; buffers are zero beyond n.
static float rms_scale(const float* x, float eps, int n) {
  F8 squares = zero();
  for (int i = 0; i < n; i += 8) squares = fma(load(x + i), load(x + i), squares);
  return 1.0f / __builtin_sqrtf(sum_lanes(squares) / static_cast<float>(n) + eps);
}

static void scale_mul(const float* x, float scale, const float* weight, int n, float* y) {
  const F8 s = set1(scale);
  for (int i = 0; i < n; i += 8) store(y + i, mul(mul(load(x + i), s), load(weight + i)));
}

static void quantise(const float* x, int k, const QuantRow& out) {
  for (int b = 0; b < k / kBlock; ++b) {
    F8 v[4], largest = zero();
    for (int i = 0; i < 4; ++i) {
      v[i] = load(x + b * kBlock + 8 * i);
      largest = max(abs(v[i]), largest);
    }
    const float most = max_lanes(largest), scale = most / 127.0f;
    const F8 inverse = set1(most > 0.0f ? 127.0f / most : 0.0f);
    int sums[2] = {0, 0};
    for (int i = 0; i < 4; ++i) {
      std::int8_t bytes[8];
      sums[i / 2] += store_int8(bytes, round(mul(v[i], inverse)));
      std::int8_t* q = out.q + (8 * b + 2 * i) * 4 * out.step;
      __builtin_memcpy(q, bytes, 4);
      __builtin_memcpy(q + 4 * out.step, bytes + 4, 4);
    }
    out.scale[b * out.step] = scale;
    out.scaled_sum[b * out.step] = scale * static_cast<float>(sums[0] + sums[1]);
    out.sums[2 * b * out.step] = static_cast<std::int16_t>(sums[0]);
    out.sums[2 * b * out.step + 1] = static_cast<std::int16_t>(sums[1]);
  }
}

static void silu_mul(const float* gate, const float* up, float* y, int n) {
  for (int i = 0; i < n; i += 8) {
    const F8 g = load(gate + i);
    store(y + i, mul(div(g, add(set1(1.0f), exp8(neg(g)))), load(up + i)));
  }
}

// x / 2 (1 + tanh u) = x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3).
static void gelu_mul(const float* gate, const float* up, float* y, int n) {
  for (int i = 0; i < n; i += 8) {
    const F8 g = load(gate + i);
    const F8 cubic = fma(mul(mul(g, g), g), set1(0.044715f), g);
    store(y + i, mul(div(g, add(set1(1.0f), exp8(mul(cubic, set1(-1.59576912f))))), load(up + i)));
  }
}

static void cap(float* x, float divisor, float most, int n) {
  for (int i = 0; i < n; i += 8) {
    const F8 value = div(load(x + i), set1(divisor));
    store(x + i, most == 0.0f ? value : capped(value, most));
  }
}

static void rope(float* x, const float* cos, const float* sin, int half, int n, float scale) {
  int i = 0;
  const F8 s = set1(scale);
  for (; i + 8 <= half; i += 8) {
    const F8 a = load(x + i), b = load(x + half + i), c = load(cos + i), d = load(sin + i);
    store(x + i, mul(fma(a, c, neg(mul(b, d))), s));
    store(x + half + i, mul(fma(b, c, mul(a, d)), s));
  }
  for (; i < half; ++i) {
    const float a = x[i], b = x[half + i];
    x[i] = fma1(a, cos[i], -(b * sin[i])) * scale;
    x[half + i] = fma1(b, cos[i], a * sin[i]) * scale;
  }
  for (i = 2 * half; i < n; ++i) x[i] *= scale;
}

// ---- matrix products ----

// The results of one row for the tiles that a vector spans.
static inline void put(const Matmul& a, int row, int tile, FW value) {
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

// R rows (one group) times the tiles of one vector with int8 activations. The first group fetches the tiles from
// memory and prefetches ahead (into the next tiles at the end: they lie one after the other); later groups find
// them in the cache. `step` is 0 where the last vector spans a tile that is not there: it reads the first twice.
template <Kind K, int R, bool First>
static inline void int8_rows(const Matmul& a, int tile, std::size_t step, int row) {
  constexpr Geometry g = geometry(K);
  constexpr int kPerUnit = g.tile_unit / kBlock, kAhead = 65536;
  constexpr bool kHasMin = K == Kind::Q4_1 || K == Kind::Q4_K;
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
        if constexpr (kHasMin) acc[r] = fma(min, wide_set1(scaled_sums + r), acc[r]);
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
  if constexpr (R == 1) int8_rows<K, 1, First>(a, tile, step, row);
  else if (count == R) int8_rows<K, R, First>(a, tile, step, row);
  else int8_group<K, First, R - 1>(a, tile, step, row, count);
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

// R rows times T vectors of tiles with f32 activations: per block one chain of 32 fused multiply-adds, then one
// add.
template <Kind K, int R, int T>
static inline void float_rows(const Matmul& a, int tile, std::size_t step, int row) {
  constexpr int kTiles = T * kWideTiles, kBytes = is_quantised(K) ? kBlock * kLanes * 4 : geometry(K).tile_bytes;
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
        unpack_block(K, tiles, b, scratch + t * kBlock * kLanes);
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
static inline void float_group(const Matmul& a, int tile, std::size_t step, int row, int count) {
  if constexpr (R == 1) float_rows<K, 1, T>(a, tile, step, row);
  else if (count == R) float_rows<K, R, T>(a, tile, step, row);
  else float_group<K, T, R - 1>(a, tile, step, row, count);
}

template <Kind K>
static void matmul_float(const Matmul& a, int tile_begin, int tile_end) {
  constexpr int kTiles = 2 * kWideTiles;
  int tile = tile_begin;
  for (; tile < tile_end; tile += kTiles) {
    const bool two = tile + kTiles <= tile_end;
    for (int row = 0, count; row < a.rows; row += count) {
      count = group_size(a.rows - row);
      if (two) {
        float_group<K, 2>(a, tile, a.tile_bytes, row, count);
        continue;
      }
      for (int t = tile; t < tile_end; t += kWideTiles)
        float_group<K, 1>(a, t, t + kWideTiles <= tile_end ? a.tile_bytes : 0, row, count);
    }
  }
}

// ---- attention over one block of 64 positions ----

constexpr int kQueries = 2 * kWideTiles;         // that share one reading of the keys and values
constexpr int kSpan = 4 * kWideTiles * kLanes;  // elements of a query's output made at a time

static inline void cache_load(const float* p, F8& out) { out = load(p); }
static inline void cache_load(const std::uint16_t* p, F8& out) {
  out = load_half(reinterpret_cast<const std::uint8_t*>(p));
}
static inline void spread(const float* p, F8& out) { out = set1(*p); }
static inline void put_lanes(float* p, F8 a) { store(p, a); }

// Scores of Q queries against all 64 keys; each is one chain over head_dim, lanes are positions.
// Fetches `bytes` from `next` on, if there is a next, and moves it on.
static inline void fetch_next(const char*& next, int bytes) {
  if (next == nullptr) return;
  for (int i = 0; i < bytes; i += 64) prefetch(next + i);
  next += bytes;
}

template <int Q, class T>
static inline void scores(Query* const* queries, const T* keys, int head_dim, const char*& next,
                          float (*out)[kPage]) {
  constexpr int kVectors = 4;
  for (int first = 0; first < kPage; first += kSpan) {
    FW s[Q][kVectors];
    for (auto& row : s)
      for (FW& f : row) f = wide_zero();
    for (int d = 0; d < head_dim; ++d) {
      fetch_next(next, kSpan * sizeof(T));
      FW k[kVectors];
      for (int i = 0; i < kVectors; ++i) k[i] = wide_load(keys + d * kPage + first + i * kWideTiles * kLanes);
      for (int q = 0; q < Q; ++q) {
        const FW x = wide_set1(queries[q]->q + d);
        for (int i = 0; i < kVectors; ++i) s[q][i] = fma(k[i], x, s[q][i]);
      }
    }
    for (int q = 0; q < Q; ++q)
      for (int i = 0; i < kVectors; ++i) store_tiles(out[q] + first + i * kWideTiles * kLanes, s[q][i]);
  }
}

// weights[hidden..valid) become e^(score - max), the rest 0; returns max, puts the sum into `sum`.
static inline float soften(float* weights, int hidden, int valid, float cap, float& sum) {
  const float lowest = -__builtin_inff();
  if (cap != 0.0f)
    for (int i = 0; i < kPage; i += 8) store(weights + i, capped(load(weights + i), cap));
  for (int i = 0; i < hidden; ++i) weights[i] = lowest;
  F8 largest = set1(lowest);
  for (int i = 0; i < kPage; i += 8) largest = max(keep_first(load(weights + i), valid - i, lowest), largest);
  const float most = max_lanes(largest);
  for (int i = 0; i < kPage; i += kWideTiles * kLanes)
    store_tiles(weights + i, exp_lanes(sub(wide_load(weights + i), all<FW>(most))));
  for (int i = 0; i < hidden; ++i) weights[i] = 0.0f;
  F8 total = zero();
  for (int i = 0; i < kPage; i += 8) {
    const F8 e = keep_first(load(weights + i), valid - i, 0.0f);
    store(weights + i, e);
    total = add(total, e);
  }
  sum = sum_lanes(total);
  return most;
}

// How a running softmax and a new part of it combine: shares of the old and the new sums.
struct Shares {
  float old_share, new_share, max, sum;
};
static inline Shares shares_of(const Query& query, float max, float sum) {
  if (query.sum == 0.0f) return {0.0f, 1.0f, max, sum};  // nothing seen so far
  const float smaller = exp1(max > query.max ? query.max - max : max - query.max);  // the other share is e^0
  if (max > query.max) return {smaller, 1.0f, max, fma1(query.sum, smaller, sum)};
  return {1.0f, smaller, query.max, fma1(query.sum, 1.0f, sum * smaller)};
}
static inline F8 mix(const Query& query, const Shares& shares, F8 old_value, F8 new_value) {
  if (query.sum == 0.0f) return new_value;
  return fma(old_value, set1(shares.old_share), mul(new_value, set1(shares.new_share)));
}

// N vectors of the weighted sums of values for Q queries, one chain over positions per element.
template <int Q, class V, int N, class T>
static inline void weigh(const float (*weights)[kPage], const int (&valid)[Q], const T* values, int head_dim, int d,
                         const char*& next, float (*out)[kSpan]) {
  constexpr int kWidth = sizeof(V) / sizeof(float);
  V acc[Q][N];
  for (auto& row : acc)
    for (V& v : row) v = V{};
  int shared = valid[0];
  for (int q = 1; q < Q; ++q) shared = valid[q] < shared ? valid[q] : shared;
  for (int j = 0; j < shared; ++j) {
    fetch_next(next, N * kWidth * sizeof(T));
    V v[N];
    for (int i = 0; i < N; ++i) cache_load(values + j * head_dim + d + i * kWidth, v[i]);
    for (int q = 0; q < Q; ++q) {
      V e;
      spread(weights[q] + j, e);
      for (int i = 0; i < N; ++i) acc[q][i] = fma(v[i], e, acc[q][i]);
    }
  }
  for (int q = 0; q < Q; ++q) {
    for (int j = shared; j < valid[q]; ++j) {
      V e;
      spread(weights[q] + j, e);
      for (int i = 0; i < N; ++i) {
        V v;
        cache_load(values + j * head_dim + d + i * kWidth, v);
        acc[q][i] = fma(v, e, acc[q][i]);
      }
    }
    for (int i = 0; i < N; ++i) put_lanes(out[q] + i * kWidth, acc[q][i]);
  }
}

template <int Q, class T>
static inline void attend_group(Query* const* queries, const T* keys, const T* values, int first_position,
                                int head_dim, const char* next) {
  alignas(64) float weights[Q][kPage];
  alignas(64) float part[Q][kSpan];
  int valid[Q];
  Shares shares[Q];
  scores<Q>(queries, keys, head_dim, next, weights);
  for (int q = 0; q < Q; ++q) {
    const int seen = queries[q]->position - first_position + 1;
    valid[q] = seen < kPage ? seen : kPage;
    float sum;
    const int before = queries[q]->first - first_position, hidden = before > 0 ? before : 0;
    const float most = soften(weights[q], hidden, valid[q], queries[q]->cap, sum);
    shares[q] = shares_of(*queries[q], most, sum);
  }
  for (int d = 0; d < head_dim;) {
    int done = kSpan;
    if (d + kSpan <= head_dim) {
      weigh<Q, FW, 4>(weights, valid, values, head_dim, d, next, part);
    } else {
      weigh<Q, F8, 1>(weights, valid, values, head_dim, d, next, part);
      done = kLanes;
    }
    for (int q = 0; q < Q; ++q)
      for (int i = 0; i < done; i += kLanes) {
        float* out = queries[q]->out + d + i;
        store(out, mix(*queries[q], shares[q], load(out), load(part[q] + i)));
      }
    d += done;
  }
  for (int q = 0; q < Q; ++q) {
    queries[q]->max = shares[q].max;
    queries[q]->sum = shares[q].sum;
  }
}

template <class T>
static inline void attend_block(Query* const* queries, int num, const T* keys, const T* values, int first_position,
                                int head_dim, const void* next_block) {
  const char* next = static_cast<const char*>(next_block);  // fetched while the first group is worked on
  int q = 0;
  for (; q + kQueries <= num; q += kQueries, next = nullptr)
    attend_group<kQueries>(queries + q, keys, values, first_position, head_dim, next);
  for (; q + 2 <= num; q += 2, next = nullptr)
    attend_group<2>(queries + q, keys, values, first_position, head_dim, next);
  if (q < num) attend_group<1>(queries + q, keys, values, first_position, head_dim, next);
}

static void attend(Query* const* queries, int num, const float* keys, const float* values, int first_position,
                   int head_dim, const void* next) {
  attend_block(queries, num, keys, values, first_position, head_dim, next);
}
static void attend_half(Query* const* queries, int num, const std::uint16_t* keys, const std::uint16_t* values,
                        int first_position, int head_dim, const void* next) {
  attend_block(queries, num, keys, values, first_position, head_dim, next);
}

static void combine(Query& into, const Query& part, int head_dim) {
  const Shares shares = shares_of(into, part.max, part.sum);
  for (int d = 0; d < head_dim; d += kLanes)
    store(into.out + d, mix(into, shares, load(into.out + d), load(part.out + d)));
  into.max = shares.max;
  into.sum = shares.sum;
}

// ---- peaks of the multiply-add units, for rooflines ----

// Run eight independent chains on registers; return how many multiply-adds that was.
#define GA_EIGHT(statement) \
  { statement(c0) statement(c1) statement(c2) statement(c3) statement(c4) statement(c5) statement(c6) statement(c7) }
static double peak_float(long rounds) {
  FW a = wide_zero(), b = a, c0 = a, c1 = a, c2 = a, c3 = a, c4 = a, c5 = a, c6 = a, c7 = a;
  pin(a);
  pin(b);
#define GA_STEP(c) c = fma(a, b, c); pin(c);
  for (long i = 0; i < rounds; ++i) GA_EIGHT(GA_STEP)
#undef GA_STEP
  return 8.0 * kWideTiles * kLanes * static_cast<double>(rounds);
}
static double peak_int8(long rounds) {
  IW w = ints(0), x = w, c0 = w, c1 = w, c2 = w, c3 = w, c4 = w, c5 = w, c6 = w, c7 = w;
  pin(w);
  pin(x);
#define GA_STEP(c) dot_bytes(c, w, x); pin(c);
  for (long i = 0; i < rounds; ++i) GA_EIGHT(GA_STEP)
#undef GA_STEP
  return 8.0 * 4 * kWideTiles * kLanes * static_cast<double>(rounds);
}
#undef GA_EIGHT

#define GA_KINDS(function)                                                                              \
  {function<Kind::F32>, function<Kind::F16>, function<Kind::BF16>, function<Kind::Q8_0>,                \
   function<Kind::Q4_1>, function<Kind::Q5_0>, function<Kind::Q4_K>, function<Kind::Q6_K>}
#define GA_QUANTISED(function)                                                                          \
  {nullptr, nullptr, nullptr, function<Kind::Q8_0>, function<Kind::Q4_1>, function<Kind::Q5_0>,         \
   function<Kind::Q4_K>, function<Kind::Q6_K>}

static const Kernels& table(const char* name) {
  static const Kernels kernels = {name,     kMostRows, GA_QUANTISED(matmul_int8), GA_KINDS(matmul_float), rms_scale, scale_mul,
                                  quantise, silu_mul, gelu_mul, cap, rope,                   attend, attend_half, combine, peak_int8, peak_float};
  return kernels;
}
