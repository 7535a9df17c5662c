// Integer dot products of a block with AVX2: unsigned weight bytes times signed activation bytes, summed in
// int16 as long as that cannot overflow. Included after wide_avx2.hpp.

// Sums of neighbouring int16 as int32.
static inline __m256i pairs(__m256i v) { return _mm256_madd_epi16(v, _mm256_set1_epi16(1)); }
GA_INLINE void step(__m256i& acc, __m256i w, const std::int8_t* x) {
  acc = _mm256_add_epi16(acc, _mm256_maddubs_epi16(w, quad(x)));
  asm("" : "+x"(acc));  // else the compiler turns the chain into a tree and spills all of its leaves
}

// Fields of 16 bits shifted right by N, or left.
template <int N>
GA_INLINE __m256i shifted(__m256i v) {
  if constexpr (N < 0)
    return _mm256_slli_epi16(v, -N);
  else
    return _mm256_srli_epi16(v, N);
}
template <int Mask, int N = 0>
GA_INLINE __m256i field(__m256i v) {
  return _mm256_and_si256(shifted<N>(v), _mm256_set1_epi8(Mask));
}

// |w| * (x with w's sign): at most 2 * 128 * 127 in an int16, so one step per sum.
template <int R>
GA_INLINE void signed_step(IW (&out)[R], __m256i w, const std::int8_t* q) {
  const __m256i magnitude = _mm256_abs_epi8(w);
  for (int r = 0; r < R; ++r) {
    const __m256i x = _mm256_sign_epi8(quad(q + 4 * r), w);
    out[r].v = _mm256_add_epi32(out[r].v, pairs(_mm256_maddubs_epi16(magnitude, x)));
  }
}

// Signed bytes, or nibbles that stand for them.
template <Format F, int R>
GA_INLINE void signed_dots(const std::uint8_t* codes, const std::int8_t* q, IW (&out)[R]) {
  for (int r = 0; r < R; ++r) out[r] = ints(0);
  if constexpr (info(F).codes == Codes::Bytes) {
    for (int j = 0; j < 8; ++j) signed_step(out, bytes32(codes + 32 * j), q + 4 * j * R);
  } else {
    const __m256i table =
        _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kLevels)));
    for (int j = 0; j < 4; ++j) {
      const __m256i both = bytes32(codes + 32 * j);
      signed_step(out, _mm256_shuffle_epi8(table, field<15>(both)), q + 4 * j * R);
      signed_step(out, _mm256_shuffle_epi8(table, field<15, 4>(both)), q + 4 * (j + 4) * R);
    }
  }
}

template <int R>
GA_INLINE void steps(__m256i (&acc)[R], __m256i w, const std::int8_t* q) {
  for (int r = 0; r < R; ++r) step(acc[r], w, q + 4 * r);
}

// 8 * 2 * 15 * 127 = 30,480 fits an int16.
template <int R>
GA_INLINE void nibble_dots(const std::uint8_t* codes, const std::int8_t* q, IW (&out)[R]) {
  __m256i acc[R];
  for (__m256i& a : acc) a = _mm256_setzero_si256();
  for (int j = 0; j < 4; ++j) {
    const __m256i both = bytes32(codes + 32 * j);
    steps(acc, field<15>(both), q + 4 * j * R);
    steps(acc, field<15, 4>(both), q + 4 * (j + 4) * R);
  }
  for (int r = 0; r < R; ++r) out[r].v = pairs(acc[r]);
}

// Quads 4 * Half + J of codes of five bits. 4 * 2 * 31 * 127 = 31,496 fits an int16, 8 steps do not.
template <int Half, int R, int J = 0>
GA_INLINE void five_steps(__m256i (&acc)[R], const std::uint8_t* codes, const std::int8_t* q) {
  const __m256i four = field<15, 4 * Half>(bytes32(codes + 32 * J));
  const __m256i fifth = field<16, J + 4 * Half - 4>(bytes32(codes + 128));
  steps(acc, _mm256_or_si256(four, fifth), q + 4 * (J + 4 * Half) * R);
  if constexpr (J < 3) five_steps<Half, R, J + 1>(acc, codes, q);
}
template <int R>
GA_INLINE void five_dots(const std::uint8_t* codes, const std::int8_t* q, IW (&out)[R]) {
  __m256i acc[2][R];
  for (auto& half : acc)
    for (__m256i& a : half) a = _mm256_setzero_si256();
  five_steps<0>(acc[0], codes, q);
  for (int r = 0; r < R; ++r) out[r].v = pairs(acc[0][r]);
  five_steps<1>(acc[1], codes, q);
  for (int r = 0; r < R; ++r) out[r].v = _mm256_add_epi32(out[r].v, pairs(acc[1][r]));
}

// Quad 4 * Half + J of a format with a scale for each half.
template <Format F, int Half, int J>
GA_INLINE __m256i half_weights(const std::uint8_t* codes) {
  if constexpr (info(F).codes == Codes::SixBits) {
    const __m256i four = field<15, 4 * Half>(bytes32(codes + 32 * J));
    return _mm256_or_si256(four, field<0x30, 2 * J - 4>(bytes32(codes + 128 + 32 * Half)));
  } else {
    const __m256i two = field<3, 2 * J>(bytes32(codes + 32 * Half));
    if constexpr (info(F).codes == Codes::TwoBits) return two;
    return _mm256_or_si256(two, field<4, 4 * Half + J - 2>(bytes32(codes + 64)));
  }
}

// The scale multiplies while pairs are summed. Two steps of 6 bits fit an int16: 2 * 2 * 63 * 127 = 32,004.
template <Format F, int Half, int R, int J = 0>
GA_INLINE void half_dots(const std::uint8_t* codes, __m256i scale, const std::int8_t* q, IW (&out)[R]) {
  const __m256i w0 = half_weights<F, Half, J>(codes), w1 = half_weights<F, Half, J + 1>(codes);
  for (int r = 0; r < R; ++r) {
    __m256i acc = _mm256_setzero_si256();
    step(acc, w0, q + 4 * ((J + 4 * Half) * R + r));
    step(acc, w1, q + 4 * ((J + 1 + 4 * Half) * R + r));
    const __m256i sum = _mm256_madd_epi16(acc, scale);
    out[r].v = Half == 0 && J == 0 ? sum : _mm256_add_epi32(out[r].v, sum);
  }
  if constexpr (J == 0) half_dots<F, Half, R, 2>(codes, scale, q, out);
}

// Both sums of x of a row, side by side as int16.
GA_INLINE __m256i both_sums(const std::int16_t* sums) {
  std::int32_t both;
  __builtin_memcpy(&both, sums, 4);
  return _mm256_set1_epi32(both);
}
static inline __m128i scale_pairs(const std::uint8_t* unit, int b) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(unit + 16 * b));
}

template <Format F, int R>
GA_INLINE void half_scaled_dots(const std::uint8_t* unit, int b, const std::int8_t* q,
                                const std::int16_t* sums, IW (&out)[R]) {
  constexpr TileLayout kTile = tile_layout(F);
  const std::uint8_t* codes = unit + kTile.codes + b * kTile.block_bytes;
  constexpr bool kHasMin = info(F).scales == Scales::HalvesMin;
  constexpr int kShift = log2_of(info(F).offset);
  const __m256i inner =
      kHasMin ? _mm256_and_si256(_mm256_cvtepu8_epi16(scale_pairs(unit, b)), _mm256_set1_epi16(15))
              : _mm256_cvtepi8_epi16(scale_pairs(unit, b));
  const __m256i first = _mm256_set1_epi32(0xffff);
  half_dots<F, 0>(codes, _mm256_or_si256(_mm256_and_si256(inner, first), _mm256_slli_epi32(inner, 16)), q,
                  out);
  half_dots<F, 1>(codes, _mm256_or_si256(_mm256_srli_epi32(inner, 16), _mm256_andnot_si256(first, inner)), q,
                  out);
  if constexpr (kShift >= 0)
    for (int r = 0; r < R; ++r) {
      const __m256i offset = _mm256_madd_epi16(inner, both_sums(sums + 2 * r));
      out[r].v = _mm256_sub_epi32(out[r].v, _mm256_slli_epi32(offset, kShift));
    }
}

// Integer dot products of one block with R rows; offsets and the inner scales of halves included.
template <Format F, int R>
GA_INLINE void dots(const std::uint8_t* const* unit, int b, const std::int8_t* q, const std::int16_t* sums,
                    IW (&out)[R]) {
  constexpr TileLayout kTile = tile_layout(F);
  constexpr Codes kCodes = info(F).codes;
  const std::uint8_t* codes = unit[0] + kTile.codes + b * kTile.block_bytes;
  if constexpr (has_half_scales(F))
    half_scaled_dots<F>(unit[0], b, q, sums, out);
  else if constexpr (kCodes == Codes::Bytes || kCodes == Codes::Levels)
    signed_dots<F>(codes, q, out);
  else if constexpr (kCodes == Codes::FiveBits)
    five_dots(codes, q, out);
  else
    nibble_dots(codes, q, out);
  constexpr int kOffset = info(F).offset;
  if constexpr (kOffset != 0 && !has_half_scales(F)) {
    for (int r = 0; r < R; ++r) {
      const int offset = kOffset * (sums[2 * r] + sums[2 * r + 1]);
      out[r].v = _mm256_sub_epi32(out[r].v, _mm256_set1_epi32(offset));
    }
  }
}

// Sums of activations times the minima of halves (Scales::HalvesMin).
template <int R>
GA_INLINE void min_dots(const std::uint8_t* const* unit, int b, const std::int16_t* sums, IW (&out)[R]) {
  const __m256i mins = _mm256_srli_epi16(_mm256_cvtepu8_epi16(scale_pairs(unit[0], b)), 4);
  for (int r = 0; r < R; ++r) out[r].v = _mm256_madd_epi16(mins, both_sums(sums + 2 * r));
}
