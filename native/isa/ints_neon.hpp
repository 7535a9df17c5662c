// Integer vectors over one tile (8 rows) as two Neon vectors, for dots_bytes.hpp. Included after
// lanes_neon.hpp. The dot product takes signed bytes on both sides: weights of 4 to 6 bits fit, and Q8_0
// needs no offset.

using FW = F8;
struct IW {
  int32x4_t lo, hi;
};
constexpr int kWideTiles = 1;
constexpr int kMostRows = 6;  // 2 float and 2 integer sums of each take 24 of the 32 registers
constexpr int kSignedOffset = 0;

static inline FW wide_zero() { return zero(); }
static inline FW wide_set1(const float* p) { return set1(*p); }
static inline void store_tiles(float* out, FW value) { store(out, value); }
static inline FW wide_load(const float* p) { return load(p); }
static inline FW wide_load(const std::uint16_t* p) {
  return load_half(reinterpret_cast<const std::uint8_t*>(p));
}
static inline FW to_float(IW a) { return {vcvtq_f32_s32(a.lo), vcvtq_f32_s32(a.hi)}; }

static inline IW ints(int x) { return {vdupq_n_s32(x), vdupq_n_s32(x)}; }
static inline IW same_bytes(signed char x) {
  const int32x4_t same = vreinterpretq_s32_s8(vdupq_n_s8(x));
  return {same, same};
}
static inline IW bytes_at(const std::uint8_t* const* unit, int offset) {
  const std::uint8_t* p = unit[0] + offset;
  return {vreinterpretq_s32_u8(vld1q_u8(p)), vreinterpretq_s32_u8(vld1q_u8(p + 16))};
}
static inline IW signed_at(const std::uint8_t* const* unit, int offset) { return bytes_at(unit, offset); }
static inline FW halves_at(const std::uint8_t* const* unit, int offset) {
  return load_half(unit[0] + offset);
}
static inline FW floats_at(const std::uint8_t* const* p, int offset) {
  return load(reinterpret_cast<const float*>(p[0] + offset));
}
static inline FW brains_at(const std::uint8_t* const* p, int offset) { return load_brain(p[0] + offset); }
static inline IW widen_at(const std::uint8_t* const* unit, int offset) {
  const uint16x8_t words = vmovl_u8(vld1_u8(unit[0] + offset));
  return {vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(words))),
          vreinterpretq_s32_u32(vmovl_high_u16(words))};
}
static inline IW pair_at(const std::uint8_t* const* unit, int offset, int which) {
  const int8x8x2_t pairs = vld2_s8(reinterpret_cast<const std::int8_t*>(unit[0] + offset));
  const int16x8_t words = vmovl_s8(which ? pairs.val[1] : pairs.val[0]);
  return {vmovl_s16(vget_low_s16(words)), vmovl_high_s16(words)};
}
static inline IW bit_and(IW a, IW b) { return {vandq_s32(a.lo, b.lo), vandq_s32(a.hi, b.hi)}; }
static inline IW levels_of(IW codes) {  // codes -> kLevels
  const int8x16_t table = vld1q_s8(kLevels);
  return {vreinterpretq_s32_s8(vqtbl1q_s8(table, vreinterpretq_u8_s32(codes.lo))),
          vreinterpretq_s32_s8(vqtbl1q_s8(table, vreinterpretq_u8_s32(codes.hi)))};
}
static inline IW bit_or(IW a, IW b) { return {vorrq_s32(a.lo, b.lo), vorrq_s32(a.hi, b.hi)}; }
template <int N>
static inline int32x4_t shift_right4(int32x4_t a) {
  const uint16x8_t words = vreinterpretq_u16_s32(a);
  if constexpr (N < 0)
    return vreinterpretq_s32_u16(vshlq_n_u16(words, -N));
  else if constexpr (N > 0)
    return vreinterpretq_s32_u16(vshrq_n_u16(words, N));
  else
    return a;
}
template <int N>
static inline IW shift_right(IW a) {
  return {shift_right4<N>(a.lo), shift_right4<N>(a.hi)};
}
static inline IW plus(IW a, IW b) { return {vaddq_s32(a.lo, b.lo), vaddq_s32(a.hi, b.hi)}; }
static inline IW times(IW a, IW b) { return {vmulq_s32(a.lo, b.lo), vmulq_s32(a.hi, b.hi)}; }
static inline IW sub_scaled(IW a, IW b, int log2) {
  const int32x4_t shift = vdupq_n_s32(log2);
  return {vsubq_s32(a.lo, vshlq_s32(b.lo, shift)), vsubq_s32(a.hi, vshlq_s32(b.hi, shift))};
}
static inline void dot_bytes(IW& acc, IW w, IW x) {
  acc.lo = vdotq_s32(acc.lo, vreinterpretq_s8_s32(w.lo), vreinterpretq_s8_s32(x.lo));
  acc.hi = vdotq_s32(acc.hi, vreinterpretq_s8_s32(w.hi), vreinterpretq_s8_s32(x.hi));
}
static inline void pin(IW& a) { asm volatile("" : "+w"(a.lo), "+w"(a.hi)); }
static inline void pin(FW& a) { asm volatile("" : "+w"(a.lo), "+w"(a.hi)); }

// Quad J of every row, from row `First` on. The instruction takes its four activation bytes from one lane of
// a vector, so the 32 * R bytes of a block are loaded 16 at a time instead of being broadcast one quad at a
// time.
template <int J, int R, int First = 0>
GA_INLINE void step_rows(IW (&acc)[R], IW w, const std::int8_t* q) {
  constexpr int at = J * R + First;
  const int8x16_t x = vld1q_s8(q + at / 4 * 16);
  acc[First].lo = vdotq_laneq_s32(acc[First].lo, vreinterpretq_s8_s32(w.lo), x, at % 4);
  acc[First].hi = vdotq_laneq_s32(acc[First].hi, vreinterpretq_s8_s32(w.hi), x, at % 4);
  if constexpr (First + 1 < R) step_rows<J, R, First + 1>(acc, w, q);
}
