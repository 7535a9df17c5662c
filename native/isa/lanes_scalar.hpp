// Eight float lanes in plain C++: what the vector variants must equal, bit for bit.
// Included inside the namespace of one instruction set; see scalar.cpp.

struct F8 {
  float v[8];
};
struct I8 {
  std::int32_t v[8];
};

#define GA_EACH for (int i = 0; i < 8; ++i)
static inline F8 zero() { return F8{}; }
static inline F8 set1(float x) {
  F8 r;
  GA_EACH r.v[i] = x;
  return r;
}
template <class V>
static inline V all(float x) {
  return set1(x);
}
static inline F8 load(const float* p) {
  F8 r;
  GA_EACH r.v[i] = p[i];
  return r;
}
static inline void store(float* p, F8 a) { GA_EACH p[i] = a.v[i]; }
static inline F8 add(F8 a, F8 b) {
  F8 r;
  GA_EACH r.v[i] = a.v[i] + b.v[i];
  return r;
}
static inline F8 sub(F8 a, F8 b) {
  F8 r;
  GA_EACH r.v[i] = a.v[i] - b.v[i];
  return r;
}
static inline F8 mul(F8 a, F8 b) {
  F8 r;
  GA_EACH r.v[i] = a.v[i] * b.v[i];
  return r;
}
static inline F8 div(F8 a, F8 b) {
  F8 r;
  GA_EACH r.v[i] = a.v[i] / b.v[i];
  return r;
}
static inline float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline F8 fma(F8 a, F8 b, F8 c) {
  F8 r;
  GA_EACH r.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]);
  return r;
}
// As maxps: the second operand where either is NaN or both are zero.
static inline F8 max(F8 a, F8 b) {
  F8 r;
  GA_EACH r.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
  return r;
}
static inline F8 min(F8 a, F8 b) {
  F8 r;
  GA_EACH r.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i];
  return r;
}
static inline F8 abs(F8 a) {
  F8 r;
  GA_EACH r.v[i] = __builtin_fabsf(a.v[i]);
  return r;
}
static inline F8 neg(F8 a) {
  F8 r;
  GA_EACH r.v[i] = -a.v[i];
  return r;
}
static inline F8 keep_first(F8 a, int n, float other) {
  GA_EACH if (i >= n) a.v[i] = other;
  return a;
}
static inline F8 to_float(I8 a) {
  F8 r;
  GA_EACH r.v[i] = static_cast<float>(a.v[i]);
  return r;
}
// To the nearest integer, ties to even; 2^31 and beyond and NaN become the most negative integer, as on x86.
static inline std::int32_t round1(float x) {
  return x >= -0x1p31f && x < 0x1p31f ? static_cast<std::int32_t>(__builtin_rintf(x)) : INT32_MIN;
}
static inline I8 round(F8 a) {
  I8 r;
  GA_EACH r.v[i] = round1(a.v[i]);
  return r;
}
// 2^n for integral n in [-126, 127].
static inline F8 pow2(F8 n) {
  F8 r;
  GA_EACH r.v[i] = __builtin_bit_cast(float, (round1(n.v[i]) + 127) << 23);
  return r;
}
static inline F8 load_half(const std::uint8_t* p) {
  F8 r;
  GA_EACH {
    std::uint16_t bits;
    __builtin_memcpy(&bits, p + 2 * i, 2);
    r.v[i] = ga::half_to_float(bits);
  }
  return r;
}
static inline F8 load_brain(const std::uint8_t* p) {
  F8 r;
  GA_EACH {
    std::uint16_t bits;
    __builtin_memcpy(&bits, p + 2 * i, 2);
    r.v[i] = __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
  }
  return r;
}
// Quantised bytes of 8 lanes, clamped to [-127, 127]; returns their sum.
static inline int store_int8(std::int8_t* p, I8 a) {
  int sum = 0;
  GA_EACH {
    const std::int32_t q = a.v[i] > 127 ? 127 : a.v[i] < -127 ? -127 : a.v[i];
    p[i] = static_cast<std::int8_t>(q);
    sum += q;
  }
  return sum;
}
static inline void prefetch(const void*) {}

#undef GA_EACH
