// Eight double lanes with AVX-512. Included after lanes_avx2.hpp; see doubles_scalar.hpp.

struct D8 {
  __m512d v;
};

static inline D8 set_double(double x) { return {_mm512_set1_pd(x)}; }
static inline D8 load(const double* p) { return {_mm512_loadu_pd(p)}; }
static inline void store(double* p, D8 a) { _mm512_storeu_pd(p, a.v); }
static inline D8 add(D8 a, D8 b) { return {_mm512_add_pd(a.v, b.v)}; }
static inline D8 sub(D8 a, D8 b) { return {_mm512_sub_pd(a.v, b.v)}; }
static inline D8 mul(D8 a, D8 b) { return {_mm512_mul_pd(a.v, b.v)}; }
static inline D8 max(D8 a, D8 b) { return {_mm512_max_pd(a.v, b.v)}; }
static inline D8 widen(F8 a) { return {_mm512_cvtps_pd(a.v)}; }
static inline F8 narrow(D8 a) { return {_mm512_cvtpd_ps(a.v)}; }
template <int N>
static inline D8 add_shifted_bits(D8 a, D8 b) {
  return {_mm512_castsi512_pd(
      _mm512_add_epi64(_mm512_castpd_si512(a.v), _mm512_slli_epi64(_mm512_castpd_si512(b.v), N)))};
}
static inline void store_bits_less(std::int64_t* p, D8 a, D8 b) {
  _mm512_storeu_si512(p, _mm512_sub_epi64(_mm512_castpd_si512(a.v), _mm512_castpd_si512(b.v)));
}
static inline void store_truncated(std::int32_t* p, D8 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvttpd_epi32(a.v));
}
