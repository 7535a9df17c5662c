// Vectors over one tile (8 rows) in plain C++, for dots_scalar.hpp. Included after lanes_scalar.hpp.

using FW = F8;
using IW = I8;
constexpr int kWideTiles = 1;
constexpr int kMostRows = 4;

static inline FW wide_zero() { return zero(); }
static inline FW wide_set1(const float* p) { return set1(*p); }
static inline void store_tiles(float* out, FW value) { store(out, value); }
static inline FW wide_load(const float* p) { return load(p); }
static inline FW wide_load(const std::uint16_t* p) {
  return load_half(reinterpret_cast<const std::uint8_t*>(p));
}

static inline IW ints(int x) {
  IW r;
  for (std::int32_t& lane : r.v) lane = x;
  return r;
}
template <class T>
static inline void pin(T& a) {
  asm volatile("" : "+m"(a));
}
static inline void dot_bytes(IW& acc, IW w, IW x) {
  for (int i = 0; i < 8; ++i)
    for (int byte = 0; byte < 32; byte += 8) acc.v[i] += (w.v[i] >> byte & 255) * (x.v[i] >> byte & 255);
}

static inline FW halves_at(const std::uint8_t* const* unit, int offset) {
  return load_half(unit[0] + offset);
}
static inline FW floats_at(const std::uint8_t* const* p, int offset) {
  return load(reinterpret_cast<const float*>(p[0] + offset));
}
static inline FW brains_at(const std::uint8_t* const* p, int offset) { return load_brain(p[0] + offset); }
static inline IW widen_at(const std::uint8_t* const* unit, int offset) {
  IW r;
  for (int i = 0; i < 8; ++i) r.v[i] = unit[0][offset + i];
  return r;
}
static inline IW plus(IW a, IW b) {
  for (int i = 0; i < 8; ++i) a.v[i] += b.v[i];
  return a;
}
