// exp, tanh and sums over lanes. Included by all.hpp; see there.

// e^x, relative error under 2e-7; x is clamped to [-87, 88], and NaN stays NaN (`max` and `min` give their
// second operand then). V: any vector of floats.
template <class V>
static inline V exp_lanes(V x) {
  x = min(all<V>(88.0f), max(all<V>(-87.0f), x));
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
  x = min(set1(40.0f), max(set1(-40.0f), add(x, x)));
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
// What is not finite does not become finite: x * 0 is NaN then, else 0.
static inline F8 capped(F8 x, float cap) { return fma(x, zero(), mul(tanh8(div(x, set1(cap))), set1(cap))); }
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
