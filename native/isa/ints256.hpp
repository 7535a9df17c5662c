// Integer vectors over one tile (8 rows), for dots_bytes.hpp. Included after lanes_avx2.hpp.

using FW = F8;
struct IW {
  __m256i v;
};
constexpr int kWideTiles = 1;
constexpr int kMostRows = 6;

static inline FW wide_zero() { return zero(); }
static inline FW wide_set1(const float* p) { return {_mm256_broadcast_ss(p)}; }
static inline void store_tiles(float* out, FW value) { store(out, value); }
static inline FW wide_load(const float* p) { return load(p); }
static inline FW wide_load(const std::uint16_t* p) {
  return load_half(reinterpret_cast<const std::uint8_t*>(p));
}
static inline FW to_float(IW a) { return {_mm256_cvtepi32_ps(a.v)}; }

static inline IW ints(int x) { return {_mm256_set1_epi32(x)}; }
static inline IW same_bytes(signed char x) { return {_mm256_set1_epi8(x)}; }
static inline IW bytes_at(const std::uint8_t* const* unit, int offset) { return {bytes32(unit[0] + offset)}; }
static inline FW halves_at(const std::uint8_t* const* unit, int offset) {
  return load_half(unit[0] + offset);
}
static inline FW floats_at(const std::uint8_t* const* p, int offset) {
  return {_mm256_loadu_ps(reinterpret_cast<const float*>(p[0] + offset))};
}
static inline FW brains_at(const std::uint8_t* const* p, int offset) { return load_brain(p[0] + offset); }
// 8 unsigned bytes per tile as int32; 8 pairs of signed bytes per tile, the first or second of each, as
// int32.
static inline IW widen_at(const std::uint8_t* const* unit, int offset) { return {widen8(unit[0] + offset)}; }
static inline IW pair_at(const std::uint8_t* const* unit, int offset, int which) {
  const __m256i wide =
      _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(unit[0] + offset)));
  return {which ? _mm256_srai_epi32(wide, 8) : _mm256_srai_epi32(_mm256_slli_epi32(wide, 24), 24)};
}
static inline IW bit_and(IW a, IW b) { return {_mm256_and_si256(a.v, b.v)}; }
static inline IW bit_or(IW a, IW b) { return {_mm256_or_si256(a.v, b.v)}; }
// Signed bytes plus kSignedOffset: the dot product wants unsigned weights.
constexpr int kSignedOffset = 128;
static inline IW signed_at(const std::uint8_t* const* unit, int offset) {
  return {_mm256_xor_si256(bytes_at(unit, offset).v, same_bytes(-128).v)};
}
static inline IW levels_of(IW codes) {  // codes -> kLevels, plus kSignedOffset
  const __m256i table =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kLevels)));
  return {_mm256_shuffle_epi8(_mm256_xor_si256(table, same_bytes(-128).v), codes.v)};
}
template <int N>
static inline IW shift_right(IW a) {  // of 16-bit fields; negative N shifts left
  if constexpr (N < 0)
    return {_mm256_slli_epi16(a.v, -N)};
  else
    return {_mm256_srli_epi16(a.v, N)};
}
static inline IW sub_scaled(IW a, IW b, int log2) {
  return {_mm256_sub_epi32(a.v, _mm256_slli_epi32(b.v, log2))};
}
static inline IW plus(IW a, IW b) { return {_mm256_add_epi32(a.v, b.v)}; }
static inline IW times(IW a, IW b) { return {_mm256_mullo_epi32(a.v, b.v)}; }
static inline void dot_bytes(IW& acc, IW w, IW x) { acc.v = _mm256_dpbusd_avx_epi32(acc.v, w.v, x.v); }
static inline void pin(IW& a) { asm volatile("" : "+x"(a.v)); }
static inline void pin(FW& a) { asm volatile("" : "+x"(a.v)); }
// acc + unsigned weight bytes times four signed activation bytes, per row.
GA_INLINE void step(IW& acc, IW w, const std::int8_t* x) {
  acc.v = _mm256_dpbusd_avx_epi32(acc.v, w.v, quad(x));
}
template <int J, int R>  // quad J of every row
GA_INLINE void step_rows(IW (&acc)[R], IW w, const std::int8_t* q) {
  for (int r = 0; r < R; ++r) step(acc[r], w, q + 4 * (J * R + r));
}
