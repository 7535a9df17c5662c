// Attention over one block of 64 positions. Included by all.hpp; see there.

// Queries that share one reading of keys or values: so many chains as there are registers for.
constexpr int kQueries = kWideTiles == 1 ? 3 : 4;
constexpr int kBatch = 12;                      // queries that are done with the keys before the values
constexpr int kSpan = 4 * kWideTiles * kLanes;  // elements of a query's output made at a time

static inline void cache_load(const float* p, F8& out) { out = load(p); }
static inline void cache_load(const std::uint16_t* p, F8& out) {
  out = load_half(reinterpret_cast<const std::uint8_t*>(p));
}
static inline void spread(const float* p, F8& out) { out = set1(*p); }
static inline void put_lanes(float* p, F8 a) { store(p, a); }

// Fetches `bytes` from `next` on, if there is a next, and moves it on.
static inline void fetch_next(const char*& next, int bytes) {
  if (next == nullptr) return;
  for (int i = 0; i < bytes; i += 64) prefetch(next + i);
  next += bytes;
}

// Scores of Q queries against all 64 keys; each is one chain over head_dim, lanes are positions.
template <int Q, class T>
static inline void scores(Query* const* queries, const T* keys, int head_dim, const char*& next,
                          float (*out)[kPage]) {
  constexpr int kVectors = 4;
  const float* from[Q];
  for (int q = 0; q < Q; ++q) from[q] = queries[q]->q;
  for (int first = 0; first < kPage; first += kSpan) {
    FW s[Q][kVectors];
    for (auto& row : s)
      for (FW& f : row) f = wide_zero();
    for (int d = 0; d < head_dim; ++d) {
      fetch_next(next, kSpan * sizeof(T));
      FW x[Q];
      for (int q = 0; q < Q; ++q) x[q] = wide_set1(from[q] + d);
      for (int i = 0; i < kVectors; ++i) {
        FW k = wide_load(keys + d * kPage + first + i * kWideTiles * kLanes);
        pin(k);  // else each query loads it again
        for (int q = 0; q < Q; ++q) s[q][i] = fma(k, x[q], s[q][i]);
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
  if (query.sum == 0.0f) return {0.0f, 1.0f, max, sum};                             // nothing seen so far
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
static inline void weigh(const float (*weights)[kPage], const int* valid, const T* values, int head_dim,
                         int d, const char*& next, float (*out)[kSpan]) {
  constexpr int kWidth = sizeof(V) / sizeof(float);
  V acc[Q][N];
  for (auto& row : acc)
    for (V& v : row) v = V{};
  int shared = valid[0];
  for (int q = 1; q < Q; ++q) shared = valid[q] < shared ? valid[q] : shared;
  for (int j = 0; j < shared; ++j) {
    fetch_next(next, N * kWidth * sizeof(T));
    V e[Q];
    for (int q = 0; q < Q; ++q) spread(weights[q] + j, e[q]);
    for (int i = 0; i < N; ++i) {
      V v;
      cache_load(values + j * head_dim + d + i * kWidth, v);
      pin(v);
      for (int q = 0; q < Q; ++q) acc[q][i] = fma(v, e[q], acc[q][i]);
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

// Calls `work` with groups of queries: the first of a group, and its size as a constant.
template <int N>
struct Size {
  static constexpr int value = N;
};
template <class Work>
GA_INLINE void in_groups(int num, Work work) {
  int q = 0;
  // Four are two pairs rather than three and one.
  for (; num - q >= kQueries && !(kQueries == 3 && num - q == 4); q += kQueries) work(q, Size<kQueries>{});
  if (kQueries > 3 && num - q == 3) {
    work(q, Size<3>{});
    return;
  }
  for (; num - q >= 2; q += 2) work(q, Size<2>{});
  if (q < num) work(q, Size<1>{});
}

// At most kBatch queries. First all keys, then all values: both do not fit the first-level cache. The next
// block is fetched while the first group is worked on.
template <class T>
static inline void attend_batch(Query* const* queries, int num, const T* keys, const T* values,
                                int first_position, int head_dim, const char* next) {
  alignas(64) float weights[kBatch][kPage];
  int valid[kBatch];
  Shares shares[kBatch];
  const char* nothing = nullptr;
  in_groups(num, [&](int q, auto size) {
    scores<decltype(size)::value>(queries + q, keys, head_dim, q == 0 ? next : nothing, weights + q);
  });
  for (int q = 0; q < num; ++q) {
    const int seen = queries[q]->position - first_position + 1;
    valid[q] = seen < kPage ? seen : kPage;
    float sum;
    const int before = queries[q]->first - first_position, hidden = before > 0 ? before : 0;
    const float most = soften(weights[q], hidden, valid[q], queries[q]->cap, sum);
    shares[q] = shares_of(*queries[q], most, sum);
  }
  for (int d = 0; d < head_dim;) {
    const int width = d + kSpan <= head_dim ? kSpan : kLanes;
    in_groups(num, [&](int q, auto size) {
      constexpr int kSize = decltype(size)::value;
      alignas(64) float part[kSize][kSpan];
      const char*& fetched = q == 0 ? next : nothing;
      if (width == kSpan)
        weigh<kSize, FW, 4>(weights + q, valid + q, values, head_dim, d, fetched, part);
      else
        weigh<kSize, F8, 1>(weights + q, valid + q, values, head_dim, d, fetched, part);
      for (int i = 0; i < kSize; ++i) {
        float* out = queries[q + i]->out + d;
        for (int lane = 0; lane < width; lane += kLanes)
          store(out + lane, mix(*queries[q + i], shares[q + i], load(out + lane), load(part[i] + lane)));
      }
    });
    d += width;
  }
  for (int q = 0; q < num; ++q) {
    queries[q]->max = shares[q].max;
    queries[q]->sum = shares[q].sum;
  }
}

template <class T>
static inline void attend_block(Query* const* queries, int num, const T* keys, const T* values,
                                int first_position, int head_dim, const void* next_block) {
  const char* next = static_cast<const char*>(next_block);
  for (int q = 0; q < num; q += kBatch, next = nullptr)
    attend_batch(queries + q, num - q < kBatch ? num - q : kBatch, keys, values, first_position, head_dim,
                 next);
}

static void attend(Query* const* queries, int num, const float* keys, const float* values, int first_position,
                   int head_dim, const void* next) {
  attend_block(queries, num, keys, values, first_position, head_dim, next);
}
static void attend_half(Query* const* queries, int num, const std::uint16_t* keys,
                        const std::uint16_t* values, int first_position, int head_dim, const void* next) {
  attend_block(queries, num, keys, values, first_position, head_dim, next);
}

static void combine(Query& into, const Query& part, int head_dim) {
  const Shares shares = shares_of(into, part.max, part.sum);
  for (int d = 0; d < head_dim; d += kLanes)
    store(into.out + d, mix(into, shares, load(into.out + d), load(part.out + d)));
  into.max = shares.max;
  into.sum = shares.sum;
}
