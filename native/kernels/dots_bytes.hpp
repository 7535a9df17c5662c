// Integer dot products of a block with instructions that multiply bytes and sum straight into int32: no
// overflow is possible. Included after ints256.hpp, ints512.hpp or ints_neon.hpp.

template <int R, int J = 0>
GA_INLINE void signed_quads(IW (&acc)[R], const std::uint8_t* const* unit, const std::int8_t* q) {
  step_rows<J>(acc, signed_at(unit, 32 * J), q);
  if constexpr (J < 7) signed_quads<R, J + 1>(acc, unit, q);
}

// Quads J and J + 4: a nibble each, which may stand for a level or have a fifth bit.
template <Format F, int R, int J = 0>
GA_INLINE void nibbles(IW (&acc)[R], const std::uint8_t* const* unit, int offset, const std::int8_t* q) {
  const IW both = bytes_at(unit, offset + 32 * J), low = same_bytes(15);
  IW first = bit_and(both, low), second = bit_and(shift_right<4>(both), low);
  if constexpr (info(F).codes == Codes::Levels) {
    first = levels_of(first);
    second = levels_of(second);
  }
  if constexpr (info(F).codes == Codes::FiveBits) {
    const IW high = bytes_at(unit, offset + 128), fifth = same_bytes(16);
    first = bit_or(first, bit_and(shift_right<J - 4>(high), fifth));
    second = bit_or(second, bit_and(shift_right<J>(high), fifth));
  }
  step_rows<J>(acc, first, q);
  step_rows<J + 4>(acc, second, q);
  if constexpr (J < 3) nibbles<F, R, J + 1>(acc, unit, offset, q);
}

// Quad 4 * Half + J of a format with a scale for each half: two bits from field J of the half's vector, and a
// nibble below or a third bit above them.
template <Format F, int Half, int J>
GA_INLINE IW half_weights(const std::uint8_t* const* unit, int offset) {
  if constexpr (info(F).codes == Codes::SixBits) {
    const IW both = bytes_at(unit, offset + 32 * J), high = bytes_at(unit, offset + 128 + 32 * Half);
    const IW four = bit_and(Half == 0 ? both : shift_right<4>(both), same_bytes(15));
    return bit_or(four, bit_and(shift_right<2 * J - 4>(high), same_bytes(0x30)));
  } else {
    const IW pair = bit_and(shift_right<2 * J>(bytes_at(unit, offset + 32 * Half)), same_bytes(3));
    if constexpr (info(F).codes == Codes::TwoBits) return pair;
    const IW third = shift_right<4 * Half + J - 2>(bytes_at(unit, offset + 64));
    return bit_or(pair, bit_and(third, same_bytes(4)));
  }
}

// By which power of two the codes of a block are too large; -1 = by nothing. Signed codes are what
// `signed_at` and `levels_of` make of them.
template <Format F>
constexpr int kLowered =
    log2_of(info(F).codes == Codes::Bytes || info(F).codes == Codes::Levels ? kSignedOffset : info(F).offset);

// One half of a block: its own scale, and the codes' offset times its sum of x.
template <Format F, int Half, int R>
GA_INLINE void half_dots(const std::uint8_t* const* unit, int b, const std::int8_t* q,
                         const std::int16_t* sums, IW (&out)[R]) {
  constexpr TileLayout kTile = tile_layout(F);
  const int offset = kTile.codes + b * kTile.block_bytes;
  IW scale = pair_at(unit, 16 * b, Half);
  if constexpr (info(F).scales == Scales::HalvesMin) scale = bit_and(scale, ints(15));
  IW acc[R];
  for (IW& a : acc) a = ints(0);
  step_rows<4 * Half>(acc, half_weights<F, Half, 0>(unit, offset), q);
  step_rows<4 * Half + 1>(acc, half_weights<F, Half, 1>(unit, offset), q);
  step_rows<4 * Half + 2>(acc, half_weights<F, Half, 2>(unit, offset), q);
  step_rows<4 * Half + 3>(acc, half_weights<F, Half, 3>(unit, offset), q);
  for (int r = 0; r < R; ++r) {
    if constexpr (kLowered<F> >= 0) acc[r] = sub_scaled(acc[r], ints(sums[2 * r + Half]), kLowered<F>);
    out[r] = plus(out[r], times(acc[r], scale));
  }
}

template <Format F, int R>
GA_INLINE void dots(const std::uint8_t* const* unit, int b, const std::int8_t* q, const std::int16_t* sums,
                    IW (&out)[R]) {
  constexpr TileLayout kTile = tile_layout(F);
  for (int r = 0; r < R; ++r) out[r] = ints(0);
  if constexpr (has_half_scales(F)) {
    half_dots<F, 0>(unit, b, q, sums, out);
    half_dots<F, 1>(unit, b, q, sums, out);
    return;
  }
  if constexpr (info(F).codes == Codes::Bytes)
    signed_quads(out, unit, q);
  else
    nibbles<F>(out, unit, kTile.codes + b * kTile.block_bytes, q);
  if constexpr (kLowered<F> >= 0)
    for (int r = 0; r < R; ++r) out[r] = sub_scaled(out[r], ints(sums[2 * r] + sums[2 * r + 1]), kLowered<F>);
}

// Sums of activations times the minima of halves (Scales::HalvesMin).
template <int R>
GA_INLINE void min_dots(const std::uint8_t* const* unit, int b, const std::int16_t* sums, IW (&out)[R]) {
  const IW low = ints(15);
  const IW first = bit_and(shift_right<4>(pair_at(unit, 16 * b, 0)), low);
  const IW second = bit_and(shift_right<4>(pair_at(unit, 16 * b, 1)), low);
  for (int r = 0; r < R; ++r)
    out[r] = plus(times(first, ints(sums[2 * r])), times(second, ints(sums[2 * r + 1])));
}
