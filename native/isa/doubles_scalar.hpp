// Eight double lanes in plain C++. Included after lanes_scalar.hpp; the names of the vector variants mean the
// same.

struct D8 {
  double v[8];
};

static inline D8 set_double(double x) {
  D8 r;
  for (double& lane : r.v) lane = x;
  return r;
}
static inline D8 load(const double* p) {
  D8 r;
  for (int i = 0; i < 8; ++i) r.v[i] = p[i];
  return r;
}
static inline void store(double* p, D8 a) {
  for (int i = 0; i < 8; ++i) p[i] = a.v[i];
}
static inline D8 add(D8 a, D8 b) {
  for (int i = 0; i < 8; ++i) a.v[i] += b.v[i];
  return a;
}
static inline D8 sub(D8 a, D8 b) {
  for (int i = 0; i < 8; ++i) a.v[i] -= b.v[i];
  return a;
}
static inline D8 mul(D8 a, D8 b) {
  for (int i = 0; i < 8; ++i) a.v[i] *= b.v[i];
  return a;
}
// The second operand where either is NaN or both are zero.
static inline D8 max(D8 a, D8 b) {
  for (int i = 0; i < 8; ++i) a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
  return a;
}
static inline D8 widen(F8 a) {
  D8 r;
  for (int i = 0; i < 8; ++i) r.v[i] = static_cast<double>(a.v[i]);
  return r;
}
static inline F8 narrow(D8 a) {
  F8 r;
  for (int i = 0; i < 8; ++i) r.v[i] = static_cast<float>(a.v[i]);
  return r;
}
// The bits of a, as integers, plus those of b shifted left by N.
template <int N>
static inline D8 add_shifted_bits(D8 a, D8 b) {
  for (int i = 0; i < 8; ++i)
    a.v[i] = __builtin_bit_cast(
        double, __builtin_bit_cast(std::uint64_t, a.v[i]) + (__builtin_bit_cast(std::uint64_t, b.v[i]) << N));
  return a;
}
// The bits of a less those of b.
static inline void store_bits_less(std::int64_t* p, D8 a, D8 b) {
  for (int i = 0; i < 8; ++i)
    p[i] = __builtin_bit_cast(std::int64_t, a.v[i]) - __builtin_bit_cast(std::int64_t, b.v[i]);
}
// Towards zero; the values fit.
static inline void store_truncated(std::int32_t* p, D8 a) {
  for (int i = 0; i < 8; ++i) p[i] = static_cast<std::int32_t>(a.v[i]);
}
