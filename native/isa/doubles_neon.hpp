// Eight double lanes as four Neon vectors. Included after lanes_neon.hpp; see doubles_scalar.hpp.

struct D8 {
  float64x2_t v[4];
};

#define GA_EACH for (int i = 0; i < 4; ++i)
static inline D8 set_double(double x) {
  D8 r;
  GA_EACH r.v[i] = vdupq_n_f64(x);
  return r;
}
static inline D8 load(const double* p) {
  D8 r;
  GA_EACH r.v[i] = vld1q_f64(p + 2 * i);
  return r;
}
static inline void store(double* p, D8 a) { GA_EACH vst1q_f64(p + 2 * i, a.v[i]); }
static inline D8 add(D8 a, D8 b) {
  GA_EACH a.v[i] = vaddq_f64(a.v[i], b.v[i]);
  return a;
}
static inline D8 sub(D8 a, D8 b) {
  GA_EACH a.v[i] = vsubq_f64(a.v[i], b.v[i]);
  return a;
}
static inline D8 mul(D8 a, D8 b) {
  GA_EACH a.v[i] = vmulq_f64(a.v[i], b.v[i]);
  return a;
}
static inline D8 max(D8 a, D8 b) {
  GA_EACH a.v[i] = vbslq_f64(vcgtq_f64(a.v[i], b.v[i]), a.v[i], b.v[i]);
  return a;
}
static inline D8 widen(F8 a) {
  return {{vcvt_f64_f32(vget_low_f32(a.lo)), vcvt_high_f64_f32(a.lo), vcvt_f64_f32(vget_low_f32(a.hi)),
           vcvt_high_f64_f32(a.hi)}};
}
static inline F8 narrow(D8 a) {
  return {vcvt_high_f32_f64(vcvt_f32_f64(a.v[0]), a.v[1]), vcvt_high_f32_f64(vcvt_f32_f64(a.v[2]), a.v[3])};
}
template <int N>
static inline D8 add_shifted_bits(D8 a, D8 b) {
  GA_EACH a.v[i] = vreinterpretq_f64_u64(
      vaddq_u64(vreinterpretq_u64_f64(a.v[i]), vshlq_n_u64(vreinterpretq_u64_f64(b.v[i]), N)));
  return a;
}
static inline void store_bits_less(std::int64_t* p, D8 a, D8 b) {
  GA_EACH vst1q_s64(p + 2 * i, vsubq_s64(vreinterpretq_s64_f64(a.v[i]), vreinterpretq_s64_f64(b.v[i])));
}
static inline void store_truncated(std::int32_t* p, D8 a) {
  GA_EACH vst1_s32(p + 2 * i, vmovn_s64(vcvtq_s64_f64(a.v[i])));
}
#undef GA_EACH
