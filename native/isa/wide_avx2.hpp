// Vectors over one tile (8 rows) with AVX2, for dots_pairs.hpp. Included after lanes_avx2.hpp.

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

static inline FW halves_at(const std::uint8_t* const* unit, int offset) {
  return load_half(unit[0] + offset);
}
static inline FW floats_at(const std::uint8_t* const* p, int offset) {
  return load(reinterpret_cast<const float*>(p[0] + offset));
}
static inline FW brains_at(const std::uint8_t* const* p, int offset) { return load_brain(p[0] + offset); }
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
