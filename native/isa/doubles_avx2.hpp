// Eight double lanes as two vectors with AVX2. Included after lanes_avx2.hpp; see doubles_scalar.hpp.

struct D8 {
  __m256d lo, hi;
};

static inline D8 set_double(double x) { return {_mm256_set1_pd(x), _mm256_set1_pd(x)}; }
static inline D8 load(const double* p) { return {_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4)}; }
static inline void store(double* p, D8 a) {
  _mm256_storeu_pd(p, a.lo);
  _mm256_storeu_pd(p + 4, a.hi);
}
static inline D8 add(D8 a, D8 b) { return {_mm256_add_pd(a.lo, b.lo), _mm256_add_pd(a.hi, b.hi)}; }
static inline D8 sub(D8 a, D8 b) { return {_mm256_sub_pd(a.lo, b.lo), _mm256_sub_pd(a.hi, b.hi)}; }
static inline D8 mul(D8 a, D8 b) { return {_mm256_mul_pd(a.lo, b.lo), _mm256_mul_pd(a.hi, b.hi)}; }
static inline D8 max(D8 a, D8 b) { return {_mm256_max_pd(a.lo, b.lo), _mm256_max_pd(a.hi, b.hi)}; }
static inline D8 widen(F8 a) {
  return {_mm256_cvtps_pd(_mm256_castps256_ps128(a.v)), _mm256_cvtps_pd(_mm256_extractf128_ps(a.v, 1))};
}
static inline F8 narrow(D8 a) {
  return {_mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(a.lo)), _mm256_cvtpd_ps(a.hi), 1)};
}
template <int N>
static inline __m256d add_shifted_bits4(__m256d a, __m256d b) {
  return _mm256_castsi256_pd(
      _mm256_add_epi64(_mm256_castpd_si256(a), _mm256_slli_epi64(_mm256_castpd_si256(b), N)));
}
template <int N>
static inline D8 add_shifted_bits(D8 a, D8 b) {
  return {add_shifted_bits4<N>(a.lo, b.lo), add_shifted_bits4<N>(a.hi, b.hi)};
}
static inline __m256i bits_less(__m256d a, __m256d b) {
  return _mm256_sub_epi64(_mm256_castpd_si256(a), _mm256_castpd_si256(b));
}
static inline void store_bits_less(std::int64_t* p, D8 a, D8 b) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), bits_less(a.lo, b.lo));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 4), bits_less(a.hi, b.hi));
}
static inline void store_truncated(std::int32_t* p, D8 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvttpd_epi32(a.lo));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 4), _mm256_cvttpd_epi32(a.hi));
}
