// Integer vectors over two neighbouring tiles (16 rows), for dots_bytes.hpp. Included after lanes_avx2.hpp.

struct FW {
  __m512 v;
};
struct IW {
  __m512i v;
};
constexpr int kWideTiles = 2;
constexpr int kMostRows = 8;

static inline __m512i join(__m256i a, __m256i b) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}
static inline __m256i join(__m128i a, __m128i b) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
}
static inline __m128i bytes16(const std::uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

static inline FW wide_zero() { return {_mm512_setzero_ps()}; }
static inline FW wide_set1(const float* p) { return {_mm512_set1_ps(*p)}; }
static inline void store_tiles(float* out, FW value) { _mm512_storeu_ps(out, value.v); }
static inline FW wide_load(const float* p) { return {_mm512_loadu_ps(p)}; }
static inline FW wide_load(const std::uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
static inline void cache_load(const float* p, FW& out) { out = wide_load(p); }
static inline void cache_load(const std::uint16_t* p, FW& out) { out = wide_load(p); }
static inline void spread(const float* p, FW& out) { out = wide_set1(p); }
static inline void put_lanes(float* p, FW a) { store_tiles(p, a); }
static inline FW to_float(IW a) { return {_mm512_cvtepi32_ps(a.v)}; }
static inline FW fma(FW a, FW b, FW c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
static inline FW mul(FW a, FW b) { return {_mm512_mul_ps(a.v, b.v)}; }
static inline FW add(FW a, FW b) { return {_mm512_add_ps(a.v, b.v)}; }
static inline FW sub(FW a, FW b) { return {_mm512_sub_ps(a.v, b.v)}; }
static inline FW max(FW a, FW b) { return {_mm512_max_ps(a.v, b.v)}; }
static inline FW min(FW a, FW b) { return {_mm512_min_ps(a.v, b.v)}; }
static inline FW pow2(FW n) {
  const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(biased, 23))};
}
template <>
inline FW all<FW>(float x) {
  return {_mm512_set1_ps(x)};
}
static inline FW neg(FW a) { return {_mm512_xor_ps(_mm512_set1_ps(-0.0f), a.v)}; }

static inline IW ints(int x) { return {_mm512_set1_epi32(x)}; }
static inline IW same_bytes(signed char x) { return {_mm512_set1_epi8(x)}; }
static inline IW bytes_at(const std::uint8_t* const* unit, int offset) {
  return {join(bytes32(unit[0] + offset), bytes32(unit[1] + offset))};
}
static inline FW halves_at(const std::uint8_t* const* unit, int offset) {
  return {_mm512_cvtph_ps(join(bytes16(unit[0] + offset), bytes16(unit[1] + offset)))};
}
static inline FW floats_at(const std::uint8_t* const* p, int offset) {
  return {_mm512_castsi512_ps(join(bytes32(p[0] + offset), bytes32(p[1] + offset)))};
}
static inline FW brains_at(const std::uint8_t* const* p, int offset) {
  const __m512i wide = _mm512_cvtepu16_epi32(join(bytes16(p[0] + offset), bytes16(p[1] + offset)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
static inline IW widen_at(const std::uint8_t* const* unit, int offset) {
  const __m128i a = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(unit[0] + offset));
  const __m128i b = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(unit[1] + offset));
  return {_mm512_cvtepu8_epi32(_mm_unpacklo_epi64(a, b))};
}
static inline IW pair_at(const std::uint8_t* const* unit, int offset, int which) {
  const __m512i wide = _mm512_cvtepi16_epi32(join(bytes16(unit[0] + offset), bytes16(unit[1] + offset)));
  return {which ? _mm512_srai_epi32(wide, 8) : _mm512_srai_epi32(_mm512_slli_epi32(wide, 24), 24)};
}
static inline IW bit_and(IW a, IW b) { return {_mm512_and_si512(a.v, b.v)}; }
static inline IW bit_or(IW a, IW b) { return {_mm512_or_si512(a.v, b.v)}; }
// Signed bytes plus kSignedOffset: the dot product wants unsigned weights.
constexpr int kSignedOffset = 128;
static inline IW signed_at(const std::uint8_t* const* unit, int offset) {
  return {_mm512_xor_si512(bytes_at(unit, offset).v, same_bytes(-128).v)};
}
static inline IW levels_of(IW codes) {  // codes -> kLevels, plus kSignedOffset
  const __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kLevels)));
  return {_mm512_shuffle_epi8(_mm512_xor_si512(table, same_bytes(-128).v), codes.v)};
}
template <int N>
static inline IW shift_right(IW a) {
  if constexpr (N < 0)
    return {_mm512_slli_epi16(a.v, -N)};
  else
    return {_mm512_srli_epi16(a.v, N)};
}
static inline IW sub_scaled(IW a, IW b, int log2) {
  return {_mm512_sub_epi32(a.v, _mm512_slli_epi32(b.v, log2))};
}
static inline IW plus(IW a, IW b) { return {_mm512_add_epi32(a.v, b.v)}; }
static inline IW times(IW a, IW b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
static inline void dot_bytes(IW& acc, IW w, IW x) { acc.v = _mm512_dpbusd_epi32(acc.v, w.v, x.v); }
static inline void pin(IW& a) { asm volatile("" : "+v"(a.v)); }
static inline void pin(FW& a) { asm volatile("" : "+v"(a.v)); }
static inline void pin(F8& a) { asm volatile("" : "+v"(a.v)); }
GA_INLINE void step(IW& acc, IW w, const std::int8_t* x) {
  std::int32_t bits;
  __builtin_memcpy(&bits, x, 4);
  acc.v = _mm512_dpbusd_epi32(acc.v, w.v, _mm512_set1_epi32(bits));
}
template <int J, int R>  // quad J of every row
GA_INLINE void step_rows(IW (&acc)[R], IW w, const std::int8_t* q) {
  for (int r = 0; r < R; ++r) step(acc[r], w, q + 4 * (J * R + r));
}
