// Matrix products of one tile in plain C++. Included after lanes_scalar.hpp.

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

template <Kind K>
static inline FW load_weight(const std::uint8_t* const* p, int k) {
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
static inline IW widen_at(const std::uint8_t* const* unit, int offset) {
  IW r;
  for (int i = 0; i < 8; ++i) r.v[i] = unit[0][offset + i];
  return r;
}
static inline IW plus(IW a, IW b) {
  for (int i = 0; i < 8; ++i) a.v[i] += b.v[i];
  return a;
}

// Inner scale of one half of a block.
template <Kind K>
static inline int half_scale(const std::uint8_t* unit, int b, int row, int half) {
  const std::uint8_t byte = unit[16 * b + 2 * row + half];
  return K == Kind::Q2_K ? byte & 15 : static_cast<std::int8_t>(byte);
}

template <Kind K, int R>
static inline void dots(const std::uint8_t* const* unit, int b, const std::int8_t* q, const std::int16_t*,
                        IW (&out)[R]) {
  for (int row = 0; row < kLanes; ++row) {
    int w[kBlock];
    unpack_integers(K, unit[0], b, row, w);
    for (int r = 0; r < R; ++r) {
      int half[2] = {0, 0};
      for (int k = 0; k < kBlock; ++k) half[k / 16] += w[k] * q[(k / 4 * R + r) * 4 + k % 4];
      if constexpr (has_half_scales(K))
        for (int h = 0; h < 2; ++h) half[h] *= half_scale<K>(unit[0], b, row, h);
      out[r].v[row] = half[0] + half[1];
    }
  }
}

// Sums of activations times the inner minima of Q2_K.
template <int R>
static inline void min_dots(const std::uint8_t* const* unit, int b, const std::int16_t* sums, IW (&out)[R]) {
  for (int row = 0; row < kLanes; ++row) {
    const std::uint8_t* pair = unit[0] + 16 * b + 2 * row;
    for (int r = 0; r < R; ++r)
      out[r].v[row] = (pair[0] >> 4) * sums[2 * r] + (pair[1] >> 4) * sums[2 * r + 1];
  }
}
