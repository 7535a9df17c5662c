// Matrix products with byte dot-product instructions that sum straight into int32: no overflow to mind.
// Included after ints256.hpp, ints512.hpp or ints_neon.hpp.

template <Kind K>
static inline FW load_weight(const std::uint8_t* const* p, int k) {
  if constexpr (K == Kind::F16)
    return halves_at(p, k * 16);
  else if constexpr (K == Kind::BF16)
    return brains_at(p, k * 16);
  else
    return floats_at(p, k * 32);
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

template <int R, int J = 0>
static inline void signed_quads(IW (&acc)[R], const std::uint8_t* const* unit, const std::int8_t* q) {
  step_rows<J>(acc, signed_at(unit, 32 * J), q);
  if constexpr (J < 7) signed_quads<R, J + 1>(acc, unit, q);
}

// Nibble vector J: quads J and J + 4.
template <int J, int R>
static inline void nibbles(IW (&acc)[R], const std::uint8_t* const* unit, int offset, const std::int8_t* q) {
  const IW both = bytes_at(unit, offset + 32 * J), low = same_bytes(15);
  step_rows<J>(acc, bit_and(both, low), q);
  step_rows<J + 4>(acc, bit_and(shift_right<4>(both), low), q);
}

template <int J, int R>
static inline void nibbles_and_fifth(IW (&acc)[R], const std::uint8_t* const* unit, IW high,
                                     const std::int8_t* q) {
  const IW both = bytes_at(unit, 32 * J), low = same_bytes(15), fifth = same_bytes(16);
  step_rows<J>(acc, bit_or(bit_and(both, low), bit_and(shift_right<J - 4>(high), fifth)), q);
  step_rows<J + 4>(acc, bit_or(bit_and(shift_right<4>(both), low), bit_and(shift_right<J>(high), fifth)), q);
}

// Quads 4 * Half + J: a nibble, and two more bits from field J of the half's vector.
template <int Half, int J, int R>
static inline void nibbles_and_pairs(IW (&acc)[R], const std::uint8_t* const* unit, int offset, IW high,
                                     const std::int8_t* q) {
  const IW both = bytes_at(unit, offset + 32 * J), low = same_bytes(15), field = same_bytes(0x30);
  const IW four = bit_and(Half == 0 ? both : shift_right<4>(both), low);
  step_rows<4 * Half + J>(acc, bit_or(four, bit_and(shift_right<2 * J - 4>(high), field)), q);
}

// One half of a Q6_K block: its own scale, and 32 times its sum of x comes off.
template <int Half, int R>
static inline void half_dots(const std::uint8_t* const* unit, int b, const std::int8_t* q,
                             const std::int16_t* sums, IW (&out)[R]) {
  const int offset = 144 + b * 192;
  const IW high = bytes_at(unit, offset + 128 + 32 * Half), scale = pair_at(unit, 16 * b, Half);
  IW acc[R];
  for (IW& a : acc) a = ints(0);
  nibbles_and_pairs<Half, 0>(acc, unit, offset, high, q);
  nibbles_and_pairs<Half, 1>(acc, unit, offset, high, q);
  nibbles_and_pairs<Half, 2>(acc, unit, offset, high, q);
  nibbles_and_pairs<Half, 3>(acc, unit, offset, high, q);
  for (int r = 0; r < R; ++r)
    out[r] = plus(out[r], times(sub_scaled(acc[r], ints(sums[2 * r + Half]), 5), scale));
}

template <Kind K, int R>
[[gnu::always_inline]] static inline void dots(const std::uint8_t* const* unit, int b, const std::int8_t* q,
                                               const std::int16_t* sums, IW (&out)[R]) {
  for (int r = 0; r < R; ++r) out[r] = ints(0);
  if constexpr (K == Kind::Q8_0) {
    signed_quads(out, unit, q);
    if constexpr (kSignedOffset == 128)
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
  } else {  // Q6_K
    half_dots<0>(unit, b, q, sums, out);
    half_dots<1>(unit, b, q, sums, out);
  }
}
