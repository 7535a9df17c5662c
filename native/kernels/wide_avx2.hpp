// Matrix products of one tile (8 rows) at a time with AVX2: unsigned weight bytes times signed activation
// bytes, summed in int16 as long as that cannot overflow. Included after lanes_avx2.hpp.

using FW = F8;
using IW = I8;
constexpr int kWideTiles = 1;  // tiles that one vector spans
constexpr int kMostRows = 4;   // activation rows that share one reading of the weights

static inline FW wide_zero() { return zero(); }
static inline FW wide_set1(const float* p) { return {_mm256_broadcast_ss(p)}; }
static inline void store_tiles(float* out, FW value) { store(out, value); }
static inline FW wide_load(const float* p) { return load(p); }
static inline FW wide_load(const std::uint16_t* p) {
  return load_half(reinterpret_cast<const std::uint8_t*>(p));
}

template <Kind K>
static inline FW load_weight(const std::uint8_t* const* p, int k) {
  if constexpr (K == Kind::F16)
    return load_half(p[0] + k * 16);
  else if constexpr (K == Kind::BF16)
    return load_brain(p[0] + k * 16);
  else
    return load(reinterpret_cast<const float*>(p[0]) + k * 8);
}

// Scale and minimum of the 8 rows for one block.
template <Kind K>
static inline void load_scales(const std::uint8_t* const* unit, int b, FW& scale, FW& min) {
  const std::uint8_t* u = unit[0];
  if constexpr (K == Kind::Q8_0) scale = load_half(u + 256);
  if constexpr (K == Kind::Q5_0) scale = load_half(u + 160);
  if constexpr (K == Kind::Q6_K) scale = load_half(u + 128);
  if constexpr (K == Kind::Q4_1) {
    scale = load_half(u + 128);
    min = load_half(u + 144);
  }
  if constexpr (K == Kind::Q4_K) {
    scale = mul(load_half(u + 128), {_mm256_cvtepi32_ps(widen8(u + 8 * b))});
    min = neg(mul(load_half(u + 144), {_mm256_cvtepi32_ps(widen8(u + 64 + 8 * b))}));
  }
}

static inline IW ints(int x) { return {_mm256_set1_epi32(x)}; }
static inline void pin(IW& a) { asm volatile("" : "+x"(a.v)); }
static inline void pin(FW& a) { asm volatile("" : "+x"(a.v)); }
static inline void dot_bytes(IW& acc, IW w, IW x) {
  IW products{_mm256_maddubs_epi16(w.v, x.v)};
  pin(products);
  acc.v = _mm256_add_epi16(acc.v, products.v);
}

// Sums of neighbouring int16 as int32.
static inline __m256i pairs(__m256i v) { return _mm256_madd_epi16(v, _mm256_set1_epi16(1)); }
static inline void step(__m256i& acc, __m256i w, const std::int8_t* x) {
  acc = _mm256_add_epi16(acc, _mm256_maddubs_epi16(w, quad(x)));
  asm("" : "+x"(acc));  // else the compiler turns the chain into a tree and spills all of its leaves
}

// Integer dot products of one block with R rows; offsets and the inner scales of Q6_K included.
template <Kind K, int R>
static inline void dots(const std::uint8_t* const* unit, int b, const std::int8_t* q,
                        const std::int16_t* sums, IW (&out)[R]) {
  const __m256i low = _mm256_set1_epi8(15), none = _mm256_setzero_si256();
  const std::uint8_t* u = unit[0];
  if constexpr (K == Kind::Q8_0) {
    // |w| * (x with w's sign): at most 2 * 128 * 127 in an int16, so one step per sum.
    for (int r = 0; r < R; ++r) out[r].v = none;
    for (int j = 0; j < 8; ++j) {
      const __m256i w = bytes32(u + 32 * j), magnitude = _mm256_abs_epi8(w);
      for (int r = 0; r < R; ++r) {
        const __m256i x = _mm256_sign_epi8(quad(q + 4 * (j * R + r)), w);
        out[r].v = _mm256_add_epi32(out[r].v, pairs(_mm256_maddubs_epi16(magnitude, x)));
      }
    }
  } else if constexpr (K == Kind::Q4_1 || K == Kind::Q4_K) {
    // 8 * 2 * 15 * 127 = 30,480 fits an int16.
    const std::uint8_t* p = K == Kind::Q4_K ? u + 160 + b * 128 : u;
    __m256i acc[R];
    for (int r = 0; r < R; ++r) acc[r] = none;
    for (int j = 0; j < 4; ++j) {
      const __m256i nibbles = bytes32(p + 32 * j);
      const __m256i w0 = _mm256_and_si256(nibbles, low),
                    w1 = _mm256_and_si256(_mm256_srli_epi16(nibbles, 4), low);
      for (int r = 0; r < R; ++r) step(acc[r], w0, q + 4 * (j * R + r));
      for (int r = 0; r < R; ++r) step(acc[r], w1, q + 4 * ((j + 4) * R + r));
    }
    for (int r = 0; r < R; ++r) out[r].v = pairs(acc[r]);
  } else if constexpr (K == Kind::Q5_0) {
    // 4 * 2 * 31 * 127 = 31,496 fits an int16, 8 steps do not.
    const __m256i high = bytes32(u + 128), fifth = _mm256_set1_epi8(16);
    for (int half = 0; half < 2; ++half) {
      __m256i acc[R];
      for (int r = 0; r < R; ++r) acc[r] = none;
      for (int j = 0; j < 4; ++j) {
        const __m256i nibbles = bytes32(u + 32 * j);
        const __m256i four = _mm256_and_si256(half ? _mm256_srli_epi16(nibbles, 4) : nibbles, low);
        const __m256i bit = half ? _mm256_srli_epi16(high, j) : _mm256_slli_epi16(high, 4 - j);
        const __m256i w = _mm256_or_si256(four, _mm256_and_si256(bit, fifth));
        for (int r = 0; r < R; ++r) step(acc[r], w, q + 4 * ((j + 4 * half) * R + r));
      }
      for (int r = 0; r < R; ++r) out[r].v = half ? _mm256_add_epi32(out[r].v, pairs(acc[r])) : pairs(acc[r]);
    }
    for (int r = 0; r < R; ++r)
      out[r].v = _mm256_sub_epi32(out[r].v, _mm256_set1_epi32(16 * (sums[2 * r] + sums[2 * r + 1])));
  } else {  // Q6_K
    // 2 * 2 * 63 * 127 = 32,004: two steps fit. The scale of each half multiplies while pairs are summed.
    const std::uint8_t* p = u + 144 + b * 192;
    const __m256i inner = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(u + 16 * b)));
    const __m256i first = _mm256_set1_epi32(0xffff), field = _mm256_set1_epi8(0x30);
    for (int half = 0; half < 2; ++half) {
      const __m256i scale =
          half ? _mm256_or_si256(_mm256_srli_epi32(inner, 16), _mm256_andnot_si256(first, inner))
               : _mm256_or_si256(_mm256_and_si256(inner, first), _mm256_slli_epi32(inner, 16));
      const __m256i high = bytes32(p + 128 + 32 * half);
      for (int j = 0; j < 4; j += 2) {
        const __m256i n0 = bytes32(p + 32 * j), n1 = bytes32(p + 32 * j + 32);
        const __m256i four0 = _mm256_and_si256(half ? _mm256_srli_epi16(n0, 4) : n0, low);
        const __m256i four1 = _mm256_and_si256(half ? _mm256_srli_epi16(n1, 4) : n1, low);
        const __m256i two0 = j == 0 ? _mm256_slli_epi16(high, 4) : high;
        const __m256i two1 = j == 0 ? _mm256_slli_epi16(high, 2) : _mm256_srli_epi16(high, 2);
        const __m256i w0 = _mm256_or_si256(four0, _mm256_and_si256(two0, field));
        const __m256i w1 = _mm256_or_si256(four1, _mm256_and_si256(two1, field));
        for (int r = 0; r < R; ++r) {
          __m256i acc = none;
          step(acc, w0, q + 4 * ((j + 4 * half) * R + r));
          step(acc, w1, q + 4 * ((j + 1 + 4 * half) * R + r));
          const __m256i sum = _mm256_madd_epi16(acc, scale);
          out[r].v = half == 0 && j == 0 ? sum : _mm256_add_epi32(out[r].v, sum);
        }
      }
    }
    for (int r = 0; r < R; ++r) {
      std::int32_t both;  // sums of both halves
      __builtin_memcpy(&both, sums + 2 * r, 4);
      const __m256i offset = _mm256_madd_epi16(inner, _mm256_set1_epi32(both));
      out[r].v = _mm256_sub_epi32(out[r].v, _mm256_slli_epi32(offset, 5));
    }
  }
}
