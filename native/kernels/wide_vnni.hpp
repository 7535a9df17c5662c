// Matrix products with byte dot-product instructions that sum straight into int32: no overflow to mind.
// Included after ints256.hpp, ints512.hpp or ints_neon.hpp.

template <Kind K>
GA_INLINE FW load_weight(const std::uint8_t* const* p, int k) {
  if constexpr (K == Kind::F16)
    return halves_at(p, k * 16);
  else if constexpr (K == Kind::BF16)
    return brains_at(p, k * 16);
  else
    return floats_at(p, k * 32);
}

template <int R, int J = 0>
GA_INLINE void signed_quads(IW (&acc)[R], const std::uint8_t* const* unit, const std::int8_t* q) {
  step_rows<J>(acc, signed_at(unit, 32 * J), q);
  if constexpr (J < 7) signed_quads<R, J + 1>(acc, unit, q);
}

// Quads J and J + 4: a nibble each, for some kinds a code of kLevels, for some with a fifth bit.
template <Kind K, int R, int J = 0>
GA_INLINE void nibbles(IW (&acc)[R], const std::uint8_t* const* unit, int offset, const std::int8_t* q) {
  const IW both = bytes_at(unit, offset + 32 * J), low = same_bytes(15);
  IW first = bit_and(both, low), second = bit_and(shift_right<4>(both), low);
  if constexpr (has_levels(K)) {
    first = levels_of(first);
    second = levels_of(second);
  }
  if constexpr (has_five_bits(K)) {
    const IW high = bytes_at(unit, offset + 128), fifth = same_bytes(16);
    first = bit_or(first, bit_and(shift_right<J - 4>(high), fifth));
    second = bit_or(second, bit_and(shift_right<J>(high), fifth));
  }
  step_rows<J>(acc, first, q);
  step_rows<J + 4>(acc, second, q);
  if constexpr (J < 3) nibbles<K, R, J + 1>(acc, unit, offset, q);
}

// Quad 4 * Half + J of a kind with a scale for each half: two bits from field J of the half's vector, and a
// nibble below or a third bit above them.
template <Kind K, int Half, int J>
GA_INLINE IW half_weights(const std::uint8_t* const* unit, int offset) {
  if constexpr (K == Kind::Q6_K) {
    const IW both = bytes_at(unit, offset + 32 * J), high = bytes_at(unit, offset + 128 + 32 * Half);
    const IW four = bit_and(Half == 0 ? both : shift_right<4>(both), same_bytes(15));
    return bit_or(four, bit_and(shift_right<2 * J - 4>(high), same_bytes(0x30)));
  } else {
    const IW pair = bit_and(shift_right<2 * J>(bytes_at(unit, offset + 32 * Half)), same_bytes(3));
    if constexpr (K == Kind::Q2_K) return pair;
    const IW third = shift_right<4 * Half + J - 2>(bytes_at(unit, offset + 64));
    return bit_or(pair, bit_and(third, same_bytes(4)));
  }
}

// One half of a block: its own scale, and the codes' offset (32 in Q6_K, 4 in Q3_K) times its sum of x.
template <Kind K, int Half, int R>
GA_INLINE void half_dots(const std::uint8_t* const* unit, int b, const std::int8_t* q,
                         const std::int16_t* sums, IW (&out)[R]) {
  constexpr Geometry g = geometry(K);
  const int offset = g.codes + b * g.block_bytes;
  IW scale = pair_at(unit, 16 * b, Half);
  if constexpr (K == Kind::Q2_K) scale = bit_and(scale, ints(15));
  IW acc[R];
  for (IW& a : acc) a = ints(0);
  step_rows<4 * Half>(acc, half_weights<K, Half, 0>(unit, offset), q);
  step_rows<4 * Half + 1>(acc, half_weights<K, Half, 1>(unit, offset), q);
  step_rows<4 * Half + 2>(acc, half_weights<K, Half, 2>(unit, offset), q);
  step_rows<4 * Half + 3>(acc, half_weights<K, Half, 3>(unit, offset), q);
  for (int r = 0; r < R; ++r) {
    if constexpr (K != Kind::Q2_K)
      acc[r] = sub_scaled(acc[r], ints(sums[2 * r + Half]), K == Kind::Q6_K ? 5 : 2);
    out[r] = plus(out[r], times(acc[r], scale));
  }
}

// What the codes of a block must be lowered by, as a power of two; -1 = nothing.
template <Kind K>
constexpr int kOffset = K == Kind::Q4_0                                              ? 3
                        : K == Kind::Q5_0                                            ? 4
                        : (K == Kind::Q8_0 || has_levels(K)) && kSignedOffset == 128 ? 7
                                                                                     : -1;

template <Kind K, int R>
GA_INLINE void dots(const std::uint8_t* const* unit, int b, const std::int8_t* q, const std::int16_t* sums,
                    IW (&out)[R]) {
  constexpr Geometry g = geometry(K);
  for (int r = 0; r < R; ++r) out[r] = ints(0);
  if constexpr (has_half_scales(K)) {
    half_dots<K, 0>(unit, b, q, sums, out);
    half_dots<K, 1>(unit, b, q, sums, out);
    return;
  }
  if constexpr (K == Kind::Q8_0)
    signed_quads(out, unit, q);
  else
    nibbles<K>(out, unit, g.codes + b * g.block_bytes, q);
  if constexpr (kOffset<K> >= 0)
    for (int r = 0; r < R; ++r) out[r] = sub_scaled(out[r], ints(sums[2 * r] + sums[2 * r + 1]), kOffset<K>);
}

// Sums of activations times the inner minima of Q2_K.
template <int R>
GA_INLINE void min_dots(const std::uint8_t* const* unit, int b, const std::int16_t* sums, IW (&out)[R]) {
  const IW low = ints(15);
  const IW first = bit_and(shift_right<4>(pair_at(unit, 16 * b, 0)), low);
  const IW second = bit_and(shift_right<4>(pair_at(unit, 16 * b, 1)), low);
  for (int r = 0; r < R; ++r)
    out[r] = plus(times(first, ints(sums[2 * r])), times(second, ints(sums[2 * r + 1])));
}
