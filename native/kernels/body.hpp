// The kernels, written once over eight lanes. Included after a lanes_*.hpp inside the namespace of one
// instruction set; no std templates and no shared inline functions in here, so that the linker can never
// merge code of one instruction set into another.
//
// The order of every accumulation is fixed here: an output element is summed block by block along k, each
// block as one fused multiply-add chain (f32 route) or one exact integer (int8 route). Nothing depends on the
// number of rows, on how rows are grouped or on which tiles a worker gets.

// e^x, relative error under 2e-7; x is clamped to [-87, 88].
static inline F8 exp8(F8 x) {
  x = min(max(x, set1(-87.0f)), set1(88.0f));
  const F8 magic = set1(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const F8 n = sub(fma(x, set1(1.44269504f), magic), magic);
  F8 r = fma(n, set1(-0.693145752f), x);       // ln 2 in two parts, the first with few bits
  r = fma(n, set1(-1.42860682e-6f), r);
  F8 p = set1(1.0f / 5040);                    // Taylor to r^7; |r| <= 0.347
  p = fma(p, r, set1(1.0f / 720));
  p = fma(p, r, set1(1.0f / 120));
  p = fma(p, r, set1(1.0f / 24));
  p = fma(p, r, set1(1.0f / 6));
  p = fma(p, r, set1(0.5f));
  p = fma(p, r, set1(1.0f));
  p = fma(p, r, set1(1.0f));
  return mul(p, pow2(n));
}
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

static void rmsnorm(const float* x, const float* weight, float eps, int n, float* y) {
  F8 squares = zero();
  const int padded = (n + 7) / 8 * 8;  // buffers are zero beyond n
  for (int i = 0; i < padded; i += 8) squares = fma(load(x + i), load(x + i), squares);
  const F8 scale = set1(1.0f / __builtin_sqrtf(sum_lanes(squares) / static_cast<float>(n) + eps));
  for (int i = 0; i < padded; i += 8) store(y + i, mul(mul(load(x + i), scale), load(weight + i)));
}

static void quantise(const float* x, int k, QuantRow out) {
  for (int b = 0; b < k / kBlock; ++b) {
    F8 v[4], largest = zero();
    for (int i = 0; i < 4; ++i) {
      v[i] = load(x + b * kBlock + 8 * i);
      largest = max(abs(v[i]), largest);
    }
    const float most = max_lanes(largest), scale = most / 127.0f;
    const F8 inverse = set1(most > 0.0f ? 127.0f / most : 0.0f);
    int sums[2] = {0, 0};
    for (int i = 0; i < 4; ++i) sums[i / 2] += store_int8(out.q + b * kBlock + 8 * i, round(mul(v[i], inverse)));
    out.scale[b] = scale;
    out.scaled_sum[b] = scale * static_cast<float>(sums[0] + sums[1]);
    out.sums[2 * b] = static_cast<std::int16_t>(sums[0]);
    out.sums[2 * b + 1] = static_cast<std::int16_t>(sums[1]);
  }
}

static void silu_mul(const float* gate, const float* up, float* y, int n) {
  for (int i = 0; i < n; i += 8) {
    const F8 g = load(gate + i);
    store(y + i, mul(div(g, add(set1(1.0f), exp8(neg(g)))), load(up + i)));
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

static inline void put(const Matmul& a, int row, int tile, F8 value) {
  float* out = a.out + row * a.out_stride + tile * kLanes;
  if (a.bias != nullptr) value = add(value, load(a.bias + tile * kLanes));
  if ((tile + 1) * kLanes <= a.n) {
    store(out, a.accumulate ? add(load(out), value) : value);
    return;
  }
  float lanes[kLanes];
  store(lanes, value);
  for (int i = 0; tile * kLanes + i < a.n; ++i) out[i] = a.accumulate ? out[i] + lanes[i] : lanes[i];
}

// R rows times one tile with int8 activations. The first group of rows fetches the tile from memory and
// prefetches ahead (into the next tile at the end: tiles lie one after the other); later groups find it in L1.
template <Kind K, int R, bool First>
static inline void int8_rows(const Matmul& a, int tile, int row) {
  constexpr Geometry g = geometry(K);
  constexpr int kBytes = g.tile_bytes * kBlock / g.tile_unit, kAhead = 2048;
  const std::uint8_t* weights = a.tiles + tile * a.tile_bytes;
  F8 acc[R];
  QuantRow x[R];
  for (int r = 0; r < R; ++r) {
    acc[r] = zero();
    x[r] = a.quant.row(row + r);
  }
  for (int b = 0; b < a.blocks; ++b) {
    if constexpr (First)
      for (int i = 0; i < kBytes; i += 64) prefetch(weights + b * kBytes + kAhead + i);
    const Weights<K> w = Weights<K>::load(weights, b);
    for (int r = 0; r < R; ++r) {
      acc[r] = fma(to_float(w.dot(x[r], b)), mul(w.scale, set1(x[r].scale[b])), acc[r]);
      if constexpr (Weights<K>::has_min) acc[r] = fma(w.min, set1(x[r].scaled_sum[b]), acc[r]);
    }
  }
  for (int r = 0; r < R; ++r) put(a, row + r, tile, acc[r]);
}

template <Kind K, bool First>
static inline void int8_group(const Matmul& a, int tile, int row, int count) {
  switch (count) {
    case 1: int8_rows<K, 1, First>(a, tile, row); break;
    case 2: int8_rows<K, 2, First>(a, tile, row); break;
    case 3: int8_rows<K, 3, First>(a, tile, row); break;
    default: int8_rows<K, 4, First>(a, tile, row);
  }
}

template <Kind K>
static void matmul_int8(const Matmul& a, int tile_begin, int tile_end) {
  for (int tile = tile_begin; tile < tile_end; ++tile) {
    int8_group<K, true>(a, tile, 0, a.rows);
    for (int row = 4; row < a.rows; row += 4) int8_group<K, false>(a, tile, row, a.rows - row);
  }
}

template <Kind K>
static inline F8 load_weight(const std::uint8_t* p, int k) {
  if constexpr (K == Kind::F16) return load_half(p + k * 16);
  else if constexpr (K == Kind::BF16) return load_brain(p + k * 16);
  else return load(reinterpret_cast<const float*>(p) + k * 8);
}

// R rows times T tiles with f32 activations: per block one chain of 32 fused multiply-adds, then one add.
template <Kind K, int R, int T>
static inline void float_rows(const Matmul& a, int tile, int row) {
  constexpr int kBytes = is_quantised(K) ? 1024 : geometry(K).tile_bytes;
  F8 total[T][R];
  for (auto& t : total)
    for (F8& f : t) f = zero();
  const float* x = a.x + row * a.x_stride;
  for (int b = 0; b < a.blocks; ++b) {
    float scratch[is_quantised(K) ? T * kBlock * kLanes : 1];
    const std::uint8_t* w[T];
    for (int t = 0; t < T; ++t) {
      const std::uint8_t* tiles = a.tiles + (tile + t) * a.tile_bytes;
      if constexpr (is_quantised(K)) {
        unpack_block(K, tiles, b, scratch + t * kBlock * kLanes);
        w[t] = reinterpret_cast<const std::uint8_t*>(scratch + t * kBlock * kLanes);
      } else {
        w[t] = tiles + static_cast<std::size_t>(b) * kBytes;
        for (int i = 0; i < kBytes; i += 64) prefetch(w[t] + 2048 + i);
      }
    }
    F8 sum[T][R];
    for (auto& t : sum)
      for (F8& f : t) f = zero();
    for (int k = 0; k < kBlock; ++k) {
      for (int t = 0; t < T; ++t) {
        const F8 weight = load_weight<K>(w[t], k);
        for (int r = 0; r < R; ++r) sum[t][r] = fma(weight, set1(x[r * a.x_stride + b * kBlock + k]), sum[t][r]);
      }
    }
    for (int t = 0; t < T; ++t)
      for (int r = 0; r < R; ++r) total[t][r] = add(total[t][r], sum[t][r]);
  }
  for (int t = 0; t < T; ++t)
    for (int r = 0; r < R; ++r) put(a, row + r, tile + t, total[t][r]);
}

template <Kind K, int T>
static inline void float_tiles(const Matmul& a, int tile) {
  for (int row = 0; row < a.rows; row += 4) {
    switch (a.rows - row) {
      case 1: float_rows<K, 1, T>(a, tile, row); break;
      case 2: float_rows<K, 2, T>(a, tile, row); break;
      case 3: float_rows<K, 3, T>(a, tile, row); break;
      default: float_rows<K, 4, T>(a, tile, row);
    }
  }
}

template <Kind K>
static void matmul_float(const Matmul& a, int tile_begin, int tile_end) {
  int tile = tile_begin;
  for (; tile + 2 <= tile_end; tile += 2) float_tiles<K, 2>(a, tile);
  if (tile < tile_end) float_tiles<K, 1>(a, tile);
}

// ---- attention over one block of 64 positions ----

// Scores of Q queries against all 64 keys; each is one chain over head_dim, lanes are positions.
template <int Q>
static inline void scores(Query* const* queries, const float* keys, int head_dim, float (*out)[kPage]) {
  for (int half = 0; half < kPage; half += 32) {
    F8 s[Q][4];
    for (auto& row : s)
      for (F8& f : row) f = zero();
    for (int d = 0; d < head_dim; ++d) {
      F8 k[4];
      for (int i = 0; i < 4; ++i) k[i] = load(keys + d * kPage + half + 8 * i);
      for (int q = 0; q < Q; ++q) {
        const F8 x = set1(queries[q]->q[d]);
        for (int i = 0; i < 4; ++i) s[q][i] = fma(x, k[i], s[q][i]);
      }
    }
    for (int q = 0; q < Q; ++q)
      for (int i = 0; i < 4; ++i) store(out[q] + half + 8 * i, s[q][i]);
  }
}

// weights[0..valid) become e^(score - max), the rest 0; returns max, puts the sum into `sum`.
static inline float soften(float* weights, int valid, float& sum) {
  const float lowest = -__builtin_inff();
  F8 largest = set1(lowest);
  for (int i = 0; i < kPage; i += 8) largest = max(keep_first(load(weights + i), valid - i, lowest), largest);
  const float most = max_lanes(largest);
  F8 total = zero();
  for (int i = 0; i < kPage; i += 8) {
    const F8 e = keep_first(exp8(sub(load(weights + i), set1(most))), valid - i, 0.0f);
    store(weights + i, e);
    total = add(total, e);
  }
  sum = sum_lanes(total);
  return most;
}

// Weighted sum of the first `valid` values, one chain over positions per element, merged into the query.
static inline void merge(Query& query, const float* weights, float most, float sum, const float* values, int valid,
                         int head_dim) {
  const bool first = query.sum == 0.0f;
  const float top = first || most > query.max ? most : query.max;
  const float old_share = first ? 0.0f : exp1(query.max - top), new_share = first ? 1.0f : exp1(most - top);
  for (int d = 0; d < head_dim; d += 32) {
    F8 acc[4] = {zero(), zero(), zero(), zero()};
    const int vectors = head_dim - d < 32 ? (head_dim - d) / 8 : 4;
    for (int j = 0; j < valid; ++j) {
      const F8 e = set1(weights[j]);
      const float* v = values + j * head_dim + d;
      if (vectors == 4) {
        for (int i = 0; i < 4; ++i) acc[i] = fma(e, load(v + 8 * i), acc[i]);
      } else {
        for (int i = 0; i < vectors; ++i) acc[i] = fma(e, load(v + 8 * i), acc[i]);
      }
    }
    for (int i = 0; i < vectors; ++i) {
      float* out = query.out + d + 8 * i;
      store(out, first ? acc[i] : fma(load(out), set1(old_share), mul(acc[i], set1(new_share))));
    }
  }
  query.sum = first ? sum : fma1(query.sum, old_share, sum * new_share);
  query.max = top;
}

static void attend(Query* const* queries, int num, const float* keys, const float* values, int first_position,
                   int head_dim) {
  alignas(32) float weights[2][kPage];
  for (int q = 0; q < num; q += 2) {
    const int pair = num - q < 2 ? 1 : 2;
    if (pair == 2) scores<2>(queries + q, keys, head_dim, weights);
    else scores<1>(queries + q, keys, head_dim, weights);
    for (int i = 0; i < pair; ++i) {
      Query& query = *queries[q + i];
      const int seen = query.position - first_position + 1, valid = seen < kPage ? seen : kPage;
      float sum;
      const float most = soften(weights[i], valid, sum);
      merge(query, weights[i], most, sum, values, valid, head_dim);
    }
  }
}

#define GA_KINDS(function)                                                                              \
  {function<Kind::F32>, function<Kind::F16>, function<Kind::BF16>, function<Kind::Q8_0>,                \
   function<Kind::Q4_1>, function<Kind::Q5_0>, function<Kind::Q4_K>, function<Kind::Q6_K>}
#define GA_QUANTISED(function)                                                                          \
  {nullptr, nullptr, nullptr, function<Kind::Q8_0>, function<Kind::Q4_1>, function<Kind::Q5_0>,         \
   function<Kind::Q4_K>, function<Kind::Q6_K>}

static const Kernels& table(const char* name) {
  static const Kernels kernels = {name,     GA_QUANTISED(matmul_int8), GA_KINDS(matmul_float), rmsnorm,
                                  quantise, silu_mul,                  rope,                   attend};
  return kernels;
}
