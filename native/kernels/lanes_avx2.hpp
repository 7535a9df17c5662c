// Eight float lanes with AVX2, FMA and F16C. Included inside the namespace of one instruction set.

struct F8 { __m256 v; };
struct I8 { __m256i v; };

static inline F8 zero() { return {_mm256_setzero_ps()}; }
static inline F8 set1(float x) { return {_mm256_set1_ps(x)}; }
static inline F8 load(const float* p) { return {_mm256_loadu_ps(p)}; }
static inline void store(float* p, F8 a) { _mm256_storeu_ps(p, a.v); }
static inline F8 add(F8 a, F8 b) { return {_mm256_add_ps(a.v, b.v)}; }
static inline F8 sub(F8 a, F8 b) { return {_mm256_sub_ps(a.v, b.v)}; }
static inline F8 mul(F8 a, F8 b) { return {_mm256_mul_ps(a.v, b.v)}; }
static inline F8 div(F8 a, F8 b) { return {_mm256_div_ps(a.v, b.v)}; }
static inline float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline F8 fma(F8 a, F8 b, F8 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
static inline F8 max(F8 a, F8 b) { return {_mm256_max_ps(a.v, b.v)}; }
static inline F8 min(F8 a, F8 b) { return {_mm256_min_ps(a.v, b.v)}; }
static inline F8 abs(F8 a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
static inline F8 neg(F8 a) { return {_mm256_xor_ps(_mm256_set1_ps(-0.0f), a.v)}; }
static inline F8 keep_first(F8 a, int n, float other) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i keep = _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane);
  return {_mm256_blendv_ps(_mm256_set1_ps(other), a.v, _mm256_castsi256_ps(keep))};
}
static inline F8 to_float(I8 a) { return {_mm256_cvtepi32_ps(a.v)}; }
static inline I8 round(F8 a) { return {_mm256_cvtps_epi32(a.v)}; }
static inline F8 pow2(F8 n) {
  const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n.v), _mm256_set1_epi32(127));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(biased, 23))};
}
static inline F8 load_half(const std::uint8_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
static inline F8 load_brain(const std::uint8_t* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16))};
}
static inline int sum8(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}
static inline int store_int8(std::int8_t* p, I8 a) {
  const __m256i bound = _mm256_set1_epi32(127);
  const __m256i q = _mm256_max_epi32(_mm256_min_epi32(a.v, bound), _mm256_sub_epi32(_mm256_setzero_si256(), bound));
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
  return sum8(q);
}
static inline void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

static inline __m256i bytes32(const std::uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
static inline __m256i quad(const std::int8_t* q) {  // four activation bytes for all rows
  std::int32_t bits;
  __builtin_memcpy(&bits, q, 4);
  return _mm256_set1_epi32(bits);
}
static inline __m256i widen8(const std::uint8_t* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
// Sums of neighbouring int16 as int32.
static inline __m256i pairs(__m256i v) { return _mm256_madd_epi16(v, _mm256_set1_epi16(1)); }
static inline __m256i step(__m256i acc, __m256i w, __m256i x) {
  return _mm256_add_epi16(acc, _mm256_maddubs_epi16(w, x));
}

// One block of weights as eight vectors of unsigned bytes (Q8_0: signed), a quad each, with its scales.
template <Kind K>
struct Weights {
  static constexpr bool has_min = K == Kind::Q4_1 || K == Kind::Q4_K;
  __m256i w[8];
  __m256i inner;  // Q6_K: scales of the halves as int16 pairs
  F8 scale, min;

  static inline Weights load(const std::uint8_t* tile, int block) {
    Weights r;
    constexpr Geometry g = geometry(K);
    const std::uint8_t* unit = tile + static_cast<std::size_t>(block * kBlock / g.tile_unit) * g.tile_bytes;
    const std::uint8_t* p = unit;
    const int b = block % 8;
    if constexpr (K == Kind::Q4_K) p = unit + 160 + b * 128;
    if constexpr (K == Kind::Q6_K) p = unit + 144 + b * 192;
    if constexpr (K == Kind::Q8_0) {
      for (int j = 0; j < 8; ++j) r.w[j] = bytes32(p + 32 * j);
    } else {
      const __m256i low = _mm256_set1_epi8(15);
      for (int j = 0; j < 4; ++j) {
        const __m256i nibbles = bytes32(p + 32 * j);
        r.w[j] = _mm256_and_si256(nibbles, low);
        r.w[j + 4] = _mm256_and_si256(_mm256_srli_epi16(nibbles, 4), low);
      }
    }
    if constexpr (K == Kind::Q8_0) r.scale = load_half(unit + 256);
    if constexpr (K == Kind::Q4_1) {
      r.scale = load_half(unit + 128);
      r.min = load_half(unit + 144);
    }
    if constexpr (K == Kind::Q5_0) {
      r.scale = load_half(unit + 160);
      const __m256i high = bytes32(p + 128), fifth = _mm256_set1_epi8(16);
      for (int j = 0; j < 8; ++j) {
        const __m256i bit = j < 4 ? _mm256_slli_epi16(high, 4 - j) : _mm256_srli_epi16(high, j - 4);
        r.w[j] = _mm256_or_si256(r.w[j], _mm256_and_si256(bit, fifth));
      }
    }
    if constexpr (K == Kind::Q4_K) {
      r.scale = mul(load_half(unit + 128), {_mm256_cvtepi32_ps(widen8(unit + 8 * b))});
      r.min = neg(mul(load_half(unit + 144), {_mm256_cvtepi32_ps(widen8(unit + 64 + 8 * b))}));
    }
    if constexpr (K == Kind::Q6_K) {
      r.scale = load_half(unit + 128);
      r.inner = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(unit + 16 * b)));
      const __m256i field = _mm256_set1_epi8(0x30);
      for (int h = 0; h < 2; ++h) {
        const __m256i high = bytes32(p + 128 + 32 * h);
        const __m256i bits[4] = {_mm256_slli_epi16(high, 4), _mm256_slli_epi16(high, 2), high,
                                 _mm256_srli_epi16(high, 2)};
        for (int j = 0; j < 4; ++j)
          r.w[4 * h + j] = _mm256_or_si256(r.w[4 * h + j], _mm256_and_si256(bits[j], field));
      }
    }
    return r;
  }

  inline I8 dot(const QuantRow& x, int block) const {
    const std::int8_t* q = x.q + block * kBlock;
    const __m256i none = _mm256_setzero_si256();
    if constexpr (K == Kind::Q8_0) {
      // |w| * (x with w's sign): at most 2 * 128 * 127 in an int16, so one step per sum.
      __m256i sum = none;
      for (int j = 0; j < 8; ++j) {
        const __m256i x4 = _mm256_sign_epi8(quad(q + 4 * j), w[j]);
        sum = _mm256_add_epi32(sum, pairs(_mm256_maddubs_epi16(_mm256_abs_epi8(w[j]), x4)));
      }
      return {sum};
    } else if constexpr (K == Kind::Q6_K) {
      // 2 * 63 * 127 per step: two steps fit. `inner` multiplies while it sums pairs.
      // inner holds (s0, s1) of each row; spread s0 and s1 over both int16 of their row.
      const __m256i half0 = _mm256_or_si256(_mm256_and_si256(inner, _mm256_set1_epi32(0xffff)),
                                            _mm256_slli_epi32(inner, 16));
      const __m256i half1 = _mm256_or_si256(_mm256_srli_epi32(inner, 16),
                                            _mm256_andnot_si256(_mm256_set1_epi32(0xffff), inner));
      __m256i sum = none;
      for (int j = 0; j < 8; j += 2) {
        const __m256i two = step(step(none, w[j], quad(q + 4 * j)), w[j + 1], quad(q + 4 * j + 4));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(two, j < 4 ? half0 : half1));
      }
      std::int32_t sums;  // of both halves of the block
      __builtin_memcpy(&sums, x.sums + 2 * block, 4);
      const __m256i offset = _mm256_madd_epi16(inner, _mm256_set1_epi32(sums));
      return {_mm256_sub_epi32(sum, _mm256_slli_epi32(offset, 5))};
    } else if constexpr (K == Kind::Q5_0) {
      // 4 * 2 * 31 * 127 = 31,496 fits an int16, 8 steps do not.
      __m256i a = none, b = none;
      for (int j = 0; j < 4; ++j) {
        a = step(a, w[j], quad(q + 4 * j));
        b = step(b, w[j + 4], quad(q + 4 * j + 16));
      }
      const int sum = x.sums[2 * block] + x.sums[2 * block + 1];
      return {_mm256_sub_epi32(_mm256_add_epi32(pairs(a), pairs(b)), _mm256_set1_epi32(16 * sum))};
    } else {
      // 8 * 2 * 15 * 127 = 30,480 fits an int16.
      __m256i a = none;
      for (int j = 0; j < 8; ++j) a = step(a, w[j], quad(q + 4 * j));
      return {pairs(a)};
    }
  }
};
