// Matrix products with byte dot-product instructions that sum straight into int32: no overflow to mind.
// Included after ints256.hpp or ints512.hpp.

template <Kind K>
static inline FW load_weight(const std::uint8_t* const* p, int k) {
  if constexpr (K == Kind::F16) return halves_at(p, k * 16);
  else if constexpr (K == Kind::BF16) return brains_at(p, k * 16);
  else return floats_at(p, k * 32);
}

template <Kind K>
static inline void load_scales(const std::uint8_t* const* unit, int b, FW& scale, FW& min) {
  if constexpr (K == Kind::Q8_0) scale = halves_at(unit, 256);
  if constexpr (K == Kind::Q5_0) scale = halves_at(unit, 160);
  if constexpr (K == Kind::Q6_K) scale = halves_at(unit, 128);
  if constexpr (K == Kind::Q4_1) {
    scale = halves_at(unit, 128);
    min = halves_at(unit, 144);
  }
  if constexpr (K == Kind::Q4_K) {
    scale = mul(halves_at(unit, 128), to_float(widen_at(unit, 8 * b)));
    min = neg(mul(halves_at(unit, 144), to_float(widen_at(unit, 64 + 8 * b))));
  }
}

template <int J, int R>
static inline void step_rows(IW (&acc)[R], IW w, const std::int8_t* q) {
  for (int r = 0; r < R; ++r) step(acc[r], w, q + 4 * (J * R + r));
}

// Nibble vector J: quads J and J + 4.
template <int J, int R>
static inline void nibbles(IW (&acc)[R], const std::uint8_t* const* unit, int offset, const std::int8_t* q) {
  const IW both = bytes_at(unit, offset + 32 * J), low = same_bytes(15);
  step_rows<J>(acc, bit_and(both, low), q);
  step_rows<J + 4>(acc, bit_and(shift_right<4>(both), low), q);
}

template <int J, int R>
static inline void nibbles_and_fifth(IW (&acc)[R], const std::uint8_t* const* unit, IW high, const std::int8_t* q) {
  const IW both = bytes_at(unit, 32 * J), low = same_bytes(15), fifth = same_bytes(16);
  step_rows<J>(acc, bit_or(bit_and(both, low), bit_and(shift_right<J - 4>(high), fifth)), q);
  step_rows<J + 4>(acc, bit_or(bit_and(shift_right<4>(both), low), bit_and(shift_right<J>(high), fifth)), q);
}

template <int J, int R>
static inline void nibbles_and_pairs(IW (&a)[R], IW (&b)[R], const std::uint8_t* const* unit, int offset, IW high0,
                                     IW high1, const std::int8_t* q) {
  const IW both = bytes_at(unit, offset + 32 * J), low = same_bytes(15), field = same_bytes(0x30);
  step_rows<J>(a, bit_or(bit_and(both, low), bit_and(shift_right<2 * J - 4>(high0), field)), q);
  step_rows<J + 4>(b, bit_or(bit_and(shift_right<4>(both), low), bit_and(shift_right<2 * J - 4>(high1), field)), q);
}

template <Kind K, int R>
static inline void dots(const std::uint8_t* const* unit, int b, const std::int8_t* q,
                        const std::int16_t* sums, IW (&out)[R]) {
  for (int r = 0; r < R; ++r) out[r] = ints(0);
  if constexpr (K == Kind::Q8_0) {
    // w + 128 is unsigned; 128 times the sum of x comes off again.
    const IW sign = same_bytes(-128);
    for (int j = 0; j < 8; ++j) {
      const IW w = bit_xor(bytes_at(unit, 32 * j), sign);
      for (int r = 0; r < R; ++r) step(out[r], w, q + 4 * (j * R + r));
    }
    for (int r = 0; r < R; ++r) out[r] = sub_scaled(out[r], ints(sums[2 * r] + sums[2 * r + 1]), 7);
  } else if constexpr (K == Kind::Q4_1 || K == Kind::Q4_K) {
    const int offset = K == Kind::Q4_K ? 160 + b * 128 : 0;
    nibbles<0>(out, unit, offset, q);
    nibbles<1>(out, unit, offset, q);
    nibbles<2>(out, unit, offset, q);
    nibbles<3>(out, unit, offset, q);
  } else if constexpr (K == Kind::Q5_0) {
    const IW high = bytes_at(unit, 128);
    nibbles_and_fifth<0>(out, unit, high, q);
    nibbles_and_fifth<1>(out, unit, high, q);
    nibbles_and_fifth<2>(out, unit, high, q);
    nibbles_and_fifth<3>(out, unit, high, q);
    for (int r = 0; r < R; ++r) out[r] = sub_scaled(out[r], ints(sums[2 * r] + sums[2 * r + 1]), 4);
  } else {  // Q6_K: a scale per half, and 32 times the sum of x of each half comes off
    const int offset = 144 + b * 192;
    const IW high0 = bytes_at(unit, offset + 128), high1 = bytes_at(unit, offset + 160);
    IW second[R];
    for (int r = 0; r < R; ++r) second[r] = ints(0);
    nibbles_and_pairs<0>(out, second, unit, offset, high0, high1, q);
    nibbles_and_pairs<1>(out, second, unit, offset, high0, high1, q);
    nibbles_and_pairs<2>(out, second, unit, offset, high0, high1, q);
    nibbles_and_pairs<3>(out, second, unit, offset, high0, high1, q);
    const IW scale0 = pair_at(unit, 16 * b, 0), scale1 = pair_at(unit, 16 * b, 1);
    for (int r = 0; r < R; ++r) {
      const IW first = times(sub_scaled(out[r], ints(sums[2 * r]), 5), scale0);
      out[r] = plus(first, times(sub_scaled(second[r], ints(sums[2 * r + 1]), 5), scale1));
    }
  }
}
