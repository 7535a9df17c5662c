// The kernels, written once over eight lanes. Included after a lanes_*.hpp inside the namespace of one
// instruction set; no std templates and no shared inline functions in here, so that the linker can never
// merge code of one instruction set into another.
//
// The order of every accumulation is fixed here: an output element is summed block by block along k, each
// block as one fused multiply-add chain (f32 route) or one exact integer (int8 route). Nothing depends on the
// number of rows, on how rows are grouped or on which tiles a worker gets.

// e^x, relative error under 2e-7; x is clamped to [-87, 88]. V: any vector of floats.
template <class V>
static inline V exp_lanes(V x) {
  x = min(max(x, all<V>(-87.0f)), all<V>(88.0f));
  const V magic = all<V>(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const V n = sub(fma(x, all<V>(1.44269504f), magic), magic);
  V r = fma(n, all<V>(-0.693145752f), x);  // ln 2 in two parts, the first with few bits
  r = fma(n, all<V>(-1.42860682e-6f), r);
  V p = all<V>(1.0f / 5040);  // Taylor to r^7; |r| <= 0.347
  p = fma(p, r, all<V>(1.0f / 720));
  p = fma(p, r, all<V>(1.0f / 120));
  p = fma(p, r, all<V>(1.0f / 24));
  p = fma(p, r, all<V>(1.0f / 6));
  p = fma(p, r, all<V>(0.5f));
  p = fma(p, r, all<V>(1.0f));
  p = fma(p, r, all<V>(1.0f));
  return mul(p, pow2(n));
}
// tanh by e^2x - 1, which keeps its relative accuracy where x is small.
static inline F8 tanh8(F8 x) {
  x = min(max(add(x, x), set1(-40.0f)), set1(40.0f));
  const F8 magic = set1(12582912.0f), one = set1(1.0f);
  const F8 n = sub(fma(x, set1(1.44269504f), magic), magic);
  F8 r = fma(n, set1(-0.693145752f), x);
  r = fma(n, set1(-1.42860682e-6f), r);
  F8 p = set1(1.0f / 5040);  // (e^r - 1) / r
  p = fma(p, r, set1(1.0f / 720));
  p = fma(p, r, set1(1.0f / 120));
  p = fma(p, r, set1(1.0f / 24));
  p = fma(p, r, set1(1.0f / 6));
  p = fma(p, r, set1(0.5f));
  p = fma(p, r, one);
  const F8 power = pow2(n), z = fma(power, mul(p, r), sub(power, one));
  return div(z, add(z, set1(2.0f)));
}
static inline F8 capped(F8 x, float cap) { return mul(tanh8(div(x, set1(cap))), set1(cap)); }
static inline F8 exp8(F8 x) { return exp_lanes(x); }
static inline float exp1(float x) {
  float lanes[8];
  store(lanes, exp8(set1(x)));
  return lanes[0];
}

// Lanes combined in one fixed order.
static inline float sum_lanes(F8 a) {
  float v[8];
  store(v, a);
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}
static inline float max_lanes(F8 a) {
  float v[8];
  store(v, a);
  float m = v[0];
  for (int i = 1; i < 8; ++i) m = v[i] > m ? v[i] : m;
  return m;
}

// 1 / sqrt(mean square + eps) of a row; buffers are zero beyond n.
static float rms_scale(const float* x, float eps, int n) {
  F8 squares = zero();
  for (int i = 0; i < n; i += 8) squares = fma(load(x + i), load(x + i), squares);
  return 1.0f / __builtin_sqrtf(sum_lanes(squares) / static_cast<float>(n) + eps);
}

static void scale_mul(const float* x, float scale, const float* weight, int n, float* y) {
  const F8 s = set1(scale);
  for (int i = 0; i < n; i += 8) store(y + i, mul(mul(load(x + i), s), load(weight + i)));
}

static void quantise(const float* x, int k, const QuantRow& out) {
  for (int b = 0; b < k / kBlock; ++b) {
    F8 v[4], largest = zero();
    for (int i = 0; i < 4; ++i) {
      v[i] = load(x + b * kBlock + 8 * i);
      largest = max(abs(v[i]), largest);
    }
    const float most = max_lanes(largest), scale = most / 127.0f;
    const F8 inverse = set1(most > 0.0f ? 127.0f / most : 0.0f);
    int sums[2] = {0, 0};
    for (int i = 0; i < 4; ++i) {
      std::int8_t bytes[8];
      sums[i / 2] += store_int8(bytes, round(mul(v[i], inverse)));
      std::int8_t* q = out.q + (8 * b + 2 * i) * 4 * out.step;
      __builtin_memcpy(q, bytes, 4);
      __builtin_memcpy(q + 4 * out.step, bytes + 4, 4);
    }
    out.scale[b * out.step] = scale;
    out.scaled_sum[b * out.step] = scale * static_cast<float>(sums[0] + sums[1]);
    out.sums[2 * b * out.step] = static_cast<std::int16_t>(sums[0]);
    out.sums[2 * b * out.step + 1] = static_cast<std::int16_t>(sums[1]);
  }
}

static void silu_mul(const float* gate, const float* up, float* y, int n) {
  for (int i = 0; i < n; i += 8) {
    const F8 g = load(gate + i);
    store(y + i, mul(div(g, add(set1(1.0f), exp8(neg(g)))), load(up + i)));
  }
}

// x / 2 (1 + tanh u) = x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3).
static void gelu_mul(const float* gate, const float* up, float* y, int n) {
  for (int i = 0; i < n; i += 8) {
    const F8 g = load(gate + i);
    const F8 cubic = fma(mul(mul(g, g), g), set1(0.044715f), g);
    store(y + i, mul(div(g, add(set1(1.0f), exp8(mul(cubic, set1(-1.59576912f))))), load(up + i)));
  }
}

static void cap(float* x, float divisor, float most, int n) {
  for (int i = 0; i < n; i += 8) {
    const F8 value = div(load(x + i), set1(divisor));
    store(x + i, most == 0.0f ? value : capped(value, most));
  }
}

static void rope(float* x, const float* cos, const float* sin, int half, int n, float scale) {
  int i = 0;
  const F8 s = set1(scale);
  for (; i + 8 <= half; i += 8) {
    const F8 a = load(x + i), b = load(x + half + i), c = load(cos + i), d = load(sin + i);
    store(x + i, mul(fma(a, c, neg(mul(b, d))), s));
    store(x + half + i, mul(fma(b, c, mul(a, d)), s));
  }
  for (; i < half; ++i) {
    const float a = x[i], b = x[half + i];
    x[i] = fma1(a, cos[i], -(b * sin[i])) * scale;
    x[half + i] = fma1(b, cos[i], a * sin[i]) * scale;
  }
  for (i = 2 * half; i < n; ++i) x[i] *= scale;
}

#include "products.hpp"
#include "softmax.hpp"

// ---- peaks of the multiply-add units, for rooflines ----

// Run eight independent chains on registers; return how many multiply-adds that was.
#define GA_EIGHT(statement)                                                                           \
  {                                                                                                   \
    statement(c0) statement(c1) statement(c2) statement(c3) statement(c4) statement(c5) statement(c6) \
        statement(c7)                                                                                 \
  }
static double peak_float(long rounds) {
  FW a = wide_zero(), b = a, c0 = a, c1 = a, c2 = a, c3 = a, c4 = a, c5 = a, c6 = a, c7 = a;
  pin(a);
  pin(b);
#define GA_STEP(c)  \
  c = fma(a, b, c); \
  pin(c);
  for (long i = 0; i < rounds; ++i) GA_EIGHT(GA_STEP)
#undef GA_STEP
  return 8.0 * kWideTiles * kLanes * static_cast<double>(rounds);
}
static double peak_int8(long rounds) {
  IW w = ints(0), x = w, c0 = w, c1 = w, c2 = w, c3 = w, c4 = w, c5 = w, c6 = w, c7 = w;
  pin(w);
  pin(x);
#define GA_STEP(c)    \
  dot_bytes(c, w, x); \
  pin(c);
  for (long i = 0; i < rounds; ++i) GA_EIGHT(GA_STEP)
#undef GA_STEP
  return 8.0 * 4 * kWideTiles * kLanes * static_cast<double>(rounds);
}
#undef GA_EIGHT

// The functions of the quantised kinds, in the order of Kind.
#define GA_QUANTISED(function)                                                                \
  function<Kind::Q8_0>, function<Kind::Q4_1>, function<Kind::Q5_0>, function<Kind::Q4_K>,     \
      function<Kind::Q6_K>, function<Kind::Q4_0>, function<Kind::Q5_1>, function<Kind::Q5_K>, \
      function<Kind::Q3_K>, function<Kind::Q2_K>, function<Kind::IQ4_NL>, function<Kind::IQ4_XS>

static const Kernels& table(const char* name) {
  static const Kernels kernels = {name,
                                  kMostRows,
                                  {nullptr, nullptr, nullptr, GA_QUANTISED(matmul_int8)},
                                  {matmul_float<Kind::F32>, matmul_float<Kind::F16>, matmul_float<Kind::BF16>,
                                   GA_QUANTISED(matmul_float)},
                                  rms_scale,
                                  scale_mul,
                                  quantise,
                                  silu_mul,
                                  gelu_mul,
                                  cap,
                                  rope,
                                  attend,
                                  attend_half,
                                  combine,
                                  peak_int8,
                                  peak_float};
  return kernels;
}
