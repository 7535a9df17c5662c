// Eight float lanes with AVX2, FMA and F16C. Included inside the namespace of one instruction set.

struct F8 {
  __m256 v;
};
struct I8 {
  __m256i v;
};

static inline F8 zero() { return {_mm256_setzero_ps()}; }
static inline F8 set1(float x) { return {_mm256_set1_ps(x)}; }
template <class V>
static inline V all(float x);
template <>
inline F8 all<F8>(float x) {
  return set1(x);
}
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
  const __m256i q =
      _mm256_max_epi32(_mm256_min_epi32(a.v, bound), _mm256_sub_epi32(_mm256_setzero_si256(), bound));
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
