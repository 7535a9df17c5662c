// Eight float lanes as two Neon vectors. Included inside the namespace of one instruction set.

struct F8 {
  float32x4_t lo, hi;
};
struct I8 {
  int32x4_t lo, hi;
};

static inline F8 zero() { return {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)}; }
static inline F8 set1(float x) { return {vdupq_n_f32(x), vdupq_n_f32(x)}; }
template <class V>
static inline V all(float x);
template <>
inline F8 all<F8>(float x) {
  return set1(x);
}
static inline F8 load(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
static inline void store(float* p, F8 a) {
  vst1q_f32(p, a.lo);
  vst1q_f32(p + 4, a.hi);
}
static inline F8 add(F8 a, F8 b) { return {vaddq_f32(a.lo, b.lo), vaddq_f32(a.hi, b.hi)}; }
static inline F8 sub(F8 a, F8 b) { return {vsubq_f32(a.lo, b.lo), vsubq_f32(a.hi, b.hi)}; }
static inline F8 mul(F8 a, F8 b) { return {vmulq_f32(a.lo, b.lo), vmulq_f32(a.hi, b.hi)}; }
static inline F8 div(F8 a, F8 b) { return {vdivq_f32(a.lo, b.lo), vdivq_f32(a.hi, b.hi)}; }
static inline float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline F8 fma(F8 a, F8 b, F8 c) { return {vfmaq_f32(c.lo, a.lo, b.lo), vfmaq_f32(c.hi, a.hi, b.hi)}; }
// The second operand where either is NaN or both are zero, as maxps has it; fmax and fmin would differ.
static inline float32x4_t max4(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
static inline float32x4_t min4(float32x4_t a, float32x4_t b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
static inline F8 max(F8 a, F8 b) { return {max4(a.lo, b.lo), max4(a.hi, b.hi)}; }
static inline F8 min(F8 a, F8 b) { return {min4(a.lo, b.lo), min4(a.hi, b.hi)}; }
static inline F8 abs(F8 a) { return {vabsq_f32(a.lo), vabsq_f32(a.hi)}; }
static inline F8 neg(F8 a) { return {vnegq_f32(a.lo), vnegq_f32(a.hi)}; }
static inline F8 keep_first(F8 a, int n, float other) {
  constexpr std::int32_t kLane[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  const int32x4_t count = vdupq_n_s32(n);
  const float32x4_t rest = vdupq_n_f32(other);
  return {vbslq_f32(vcltq_s32(vld1q_s32(kLane), count), a.lo, rest),
          vbslq_f32(vcltq_s32(vld1q_s32(kLane + 4), count), a.hi, rest)};
}
static inline F8 to_float(I8 a) { return {vcvtq_f32_s32(a.lo), vcvtq_f32_s32(a.hi)}; }
// To the nearest integer, ties to even. The conversion saturates and turns NaN into 0: 2^31 and beyond and
// NaN are set to the most negative integer instead, as on x86.
static inline int32x4_t round4(float32x4_t a) {
  const uint32x4_t fits = vcltq_f32(a, vdupq_n_f32(0x1p31f));
  return vbslq_s32(fits, vcvtnq_s32_f32(a), vdupq_n_s32(INT32_MIN));
}
static inline I8 round(F8 a) { return {round4(a.lo), round4(a.hi)}; }
static inline float32x4_t pow2(float32x4_t n) {
  return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127)), 23));
}
static inline F8 pow2(F8 n) { return {pow2(n.lo), pow2(n.hi)}; }
static inline F8 load_half(const std::uint8_t* p) {
  const float16x8_t halves = vreinterpretq_f16_u8(vld1q_u8(p));
  return {vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)};
}
static inline F8 load_brain(const std::uint8_t* p) {
  const uint16x8_t words = vreinterpretq_u16_u8(vld1q_u8(p));
  return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(words), 16)),
          vreinterpretq_f32_u32(vshll_high_n_u16(words, 16))};
}
static inline int32x4_t within_127(int32x4_t a) {
  return vmaxq_s32(vminq_s32(a, vdupq_n_s32(127)), vdupq_n_s32(-127));
}
static inline int store_int8(std::int8_t* p, I8 a) {
  const int32x4_t lo = within_127(a.lo), hi = within_127(a.hi);
  vst1_s8(p, vmovn_s16(vcombine_s16(vmovn_s32(lo), vmovn_s32(hi))));
  return vaddvq_s32(vaddq_s32(lo, hi));
}
static inline void prefetch(const void* p) { __builtin_prefetch(p); }
