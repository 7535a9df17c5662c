// Matrix products of one tile (8 rows) at a time with AVX2: unsigned weight bytes times signed activation
// bytes, summed in int16 as long as that cannot overflow. Included after lanes_avx2.hpp.

using FW = F8;
using IW = I8;
constexpr int kWideTiles = 1;  // tiles that one vector spans
constexpr int kMostRows = 4;   // activation rows that share one reading of the weights

static inline FW wide_zero() { return zero(); }
static inline FW wide_set1(const float* p) { return {_mm256_broadcast_ss(p)}; }
static inline void store_tiles(float* out, FW value) { store(out, value); }
static inline FW wide_load(const float* p) { return load(p); }
static inline FW wide_load(const std::uint16_t* p) {
  return load_half(reinterpret_cast<const std::uint8_t*>(p));
}

template <Kind K>
GA_INLINE FW load_weight(const std::uint8_t* const* p, int k) {
  if constexpr (K == Kind::F16)
    return load_half(p[0] + k * 16);
  else if constexpr (K == Kind::BF16)
    return load_brain(p[0] + k * 16);
  else
    return load(reinterpret_cast<const float*>(p[0]) + k * 8);
}

static inline FW halves_at(const std::uint8_t* const* unit, int offset) {
  return load_half(unit[0] + offset);
}
static inline IW widen_at(const std::uint8_t* const* unit, int offset) { return {widen8(unit[0] + offset)}; }
static inline IW plus(IW a, IW b) { return {_mm256_add_epi32(a.v, b.v)}; }
static inline IW ints(int x) { return {_mm256_set1_epi32(x)}; }
static inline void pin(IW& a) { asm volatile("" : "+x"(a.v)); }
static inline void pin(FW& a) { asm volatile("" : "+x"(a.v)); }
static inline void dot_bytes(IW& acc, IW w, IW x) {
  IW products{_mm256_maddubs_epi16(w.v, x.v)};
  pin(products);
  acc.v = _mm256_add_epi16(acc.v, products.v);
}

// Sums of neighbouring int16 as int32.
static inline __m256i pairs(__m256i v) { return _mm256_madd_epi16(v, _mm256_set1_epi16(1)); }
GA_INLINE void step(__m256i& acc, __m256i w, const std::int8_t* x) {
  acc = _mm256_add_epi16(acc, _mm256_maddubs_epi16(w, quad(x)));
  asm("" : "+x"(acc));  // else the compiler turns the chain into a tree and spills all of its leaves
}

// Fields of 16 bits shifted right by N, or left.
template <int N>
GA_INLINE __m256i shifted(__m256i v) {
  if constexpr (N < 0)
    return _mm256_slli_epi16(v, -N);
  else
    return _mm256_srli_epi16(v, N);
}
template <int Mask, int N = 0>
GA_INLINE __m256i field(__m256i v) {
  return _mm256_and_si256(shifted<N>(v), _mm256_set1_epi8(Mask));
}

// |w| * (x with w's sign): at most 2 * 128 * 127 in an int16, so one step per sum.
template <int R>
GA_INLINE void signed_step(IW (&out)[R], __m256i w, const std::int8_t* q) {
  const __m256i magnitude = _mm256_abs_epi8(w);
  for (int r = 0; r < R; ++r) {
    const __m256i x = _mm256_sign_epi8(quad(q + 4 * r), w);
    out[r].v = _mm256_add_epi32(out[r].v, pairs(_mm256_maddubs_epi16(magnitude, x)));
  }
}

// Signed bytes, or nibbles that stand for them.
template <Kind K, int R>
GA_INLINE void signed_dots(const std::uint8_t* codes, const std::int8_t* q, IW (&out)[R]) {
  for (int r = 0; r < R; ++r) out[r] = ints(0);
  if constexpr (K == Kind::Q8_0) {
    for (int j = 0; j < 8; ++j) signed_step(out, bytes32(codes + 32 * j), q + 4 * j * R);
  } else {
    const __m256i table =
        _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kLevels)));
    for (int j = 0; j < 4; ++j) {
      const __m256i both = bytes32(codes + 32 * j);
      signed_step(out, _mm256_shuffle_epi8(table, field<15>(both)), q + 4 * j * R);
      signed_step(out, _mm256_shuffle_epi8(table, field<15, 4>(both)), q + 4 * (j + 4) * R);
    }
  }
}

template <int R>
GA_INLINE void steps(__m256i (&acc)[R], __m256i w, const std::int8_t* q) {
  for (int r = 0; r < R; ++r) step(acc[r], w, q + 4 * r);
}

// 8 * 2 * 15 * 127 = 30,480 fits an int16.
template <int R>
GA_INLINE void nibble_dots(const std::uint8_t* codes, const std::int8_t* q, IW (&out)[R]) {
  __m256i acc[R];
  for (__m256i& a : acc) a = _mm256_setzero_si256();
  for (int j = 0; j < 4; ++j) {
    const __m256i both = bytes32(codes + 32 * j);
    steps(acc, field<15>(both), q + 4 * j * R);
    steps(acc, field<15, 4>(both), q + 4 * (j + 4) * R);
  }
  for (int r = 0; r < R; ++r) out[r].v = pairs(acc[r]);
}

// Quads 4 * Half + J of codes of five bits. 4 * 2 * 31 * 127 = 31,496 fits an int16, 8 steps do not.
template <int Half, int R, int J = 0>
GA_INLINE void five_steps(__m256i (&acc)[R], const std::uint8_t* codes, const std::int8_t* q) {
  const __m256i four = field<15, 4 * Half>(bytes32(codes + 32 * J));
  const __m256i fifth = field<16, J + 4 * Half - 4>(bytes32(codes + 128));
  steps(acc, _mm256_or_si256(four, fifth), q + 4 * (J + 4 * Half) * R);
  if constexpr (J < 3) five_steps<Half, R, J + 1>(acc, codes, q);
}
template <int R>
GA_INLINE void five_dots(const std::uint8_t* codes, const std::int8_t* q, IW (&out)[R]) {
  __m256i acc[2][R];
  for (auto& half : acc)
    for (__m256i& a : half) a = _mm256_setzero_si256();
  five_steps<0>(acc[0], codes, q);
  for (int r = 0; r < R; ++r) out[r].v = pairs(acc[0][r]);
  five_steps<1>(acc[1], codes, q);
  for (int r = 0; r < R; ++r) out[r].v = _mm256_add_epi32(out[r].v, pairs(acc[1][r]));
}

// Quad 4 * Half + J of a kind with a scale for each half.
template <Kind K, int Half, int J>
GA_INLINE __m256i half_weights(const std::uint8_t* codes) {
  if constexpr (K == Kind::Q6_K) {
    const __m256i four = field<15, 4 * Half>(bytes32(codes + 32 * J));
    return _mm256_or_si256(four, field<0x30, 2 * J - 4>(bytes32(codes + 128 + 32 * Half)));
  } else {
    const __m256i two = field<3, 2 * J>(bytes32(codes + 32 * Half));
    if constexpr (K == Kind::Q2_K) return two;
    return _mm256_or_si256(two, field<4, 4 * Half + J - 2>(bytes32(codes + 64)));
  }
}

// The scale multiplies while pairs are summed. Two steps of Q6_K fit an int16: 2 * 2 * 63 * 127 = 32,004.
template <Kind K, int Half, int R, int J = 0>
GA_INLINE void half_dots(const std::uint8_t* codes, __m256i scale, const std::int8_t* q, IW (&out)[R]) {
  const __m256i w0 = half_weights<K, Half, J>(codes), w1 = half_weights<K, Half, J + 1>(codes);
  for (int r = 0; r < R; ++r) {
    __m256i acc = _mm256_setzero_si256();
    step(acc, w0, q + 4 * ((J + 4 * Half) * R + r));
    step(acc, w1, q + 4 * ((J + 1 + 4 * Half) * R + r));
    const __m256i sum = _mm256_madd_epi16(acc, scale);
    out[r].v = Half == 0 && J == 0 ? sum : _mm256_add_epi32(out[r].v, sum);
  }
  if constexpr (J == 0) half_dots<K, Half, R, 2>(codes, scale, q, out);
}

// Both sums of x of a row, side by side as int16.
GA_INLINE __m256i both_sums(const std::int16_t* sums) {
  std::int32_t both;
  __builtin_memcpy(&both, sums, 4);
  return _mm256_set1_epi32(both);
}
static inline __m128i scale_pairs(const std::uint8_t* unit, int b) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(unit + 16 * b));
}

template <Kind K, int R>
GA_INLINE void half_scaled_dots(const std::uint8_t* unit, int b, const std::int8_t* q,
                                const std::int16_t* sums, IW (&out)[R]) {
  constexpr Geometry g = geometry(K);
  const std::uint8_t* codes = unit + g.codes + b * g.block_bytes;
  const __m256i inner =
      K == Kind::Q2_K ? _mm256_and_si256(_mm256_cvtepu8_epi16(scale_pairs(unit, b)), _mm256_set1_epi16(15))
                      : _mm256_cvtepi8_epi16(scale_pairs(unit, b));
  const __m256i first = _mm256_set1_epi32(0xffff);
  half_dots<K, 0>(codes, _mm256_or_si256(_mm256_and_si256(inner, first), _mm256_slli_epi32(inner, 16)), q,
                  out);
  half_dots<K, 1>(codes, _mm256_or_si256(_mm256_srli_epi32(inner, 16), _mm256_andnot_si256(first, inner)), q,
                  out);
  if constexpr (K != Kind::Q2_K)
    for (int r = 0; r < R; ++r) {
      const __m256i offset = _mm256_madd_epi16(inner, both_sums(sums + 2 * r));
      out[r].v = _mm256_sub_epi32(out[r].v, _mm256_slli_epi32(offset, K == Kind::Q6_K ? 5 : 2));
    }
}

// Integer dot products of one block with R rows; offsets and the inner scales of halves included.
template <Kind K, int R>
GA_INLINE void dots(const std::uint8_t* const* unit, int b, const std::int8_t* q, const std::int16_t* sums,
                    IW (&out)[R]) {
  constexpr Geometry g = geometry(K);
  const std::uint8_t* codes = unit[0] + g.codes + b * g.block_bytes;
  if constexpr (has_half_scales(K))
    half_scaled_dots<K>(unit[0], b, q, sums, out);
  else if constexpr (K == Kind::Q8_0 || has_levels(K))
    signed_dots<K>(codes, q, out);
  else if constexpr (has_five_bits(K))
    five_dots(codes, q, out);
  else
    nibble_dots(codes, q, out);
  if constexpr (K == Kind::Q4_0 || K == Kind::Q5_0) {
    constexpr int offset = K == Kind::Q4_0 ? 8 : 16;
    for (int r = 0; r < R; ++r)
      out[r].v = _mm256_sub_epi32(out[r].v, _mm256_set1_epi32(offset * (sums[2 * r] + sums[2 * r + 1])));
  }
}

// Sums of activations times the inner minima of Q2_K.
template <int R>
GA_INLINE void min_dots(const std::uint8_t* const* unit, int b, const std::int16_t* sums, IW (&out)[R]) {
  const __m256i mins = _mm256_srli_epi16(_mm256_cvtepu8_epi16(scale_pairs(unit[0], b)), 4);
  for (int r = 0; r < R; ++r) out[r].v = _mm256_madd_epi16(mins, both_sums(sums + 2 * r));
}
