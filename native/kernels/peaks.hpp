// Peaks of the multiply-add units, for rooflines. Included by all.hpp; see there.

// Run eight independent chains on registers; return how many multiply-adds that was.
#define GA_EIGHT(statement)                                                                          \
  {statement(c0) statement(c1) statement(c2) statement(c3) statement(c4) statement(c5) statement(c6) \
       statement(c7)}
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
