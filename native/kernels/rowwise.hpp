// Functions of one row of activations: norms, quantisation, gates, caps, rotation. Included by all.hpp; see
// there.

// 1 / sqrt(mean square + eps) of a row, NaN where that is not finite; buffers are zero beyond n.
static float rms_scale(const float* x, float eps, int n) {
  F8 squares = zero();
  for (int i = 0; i < n; i += 8) squares = fma(load(x + i), load(x + i), squares);
  const float sum = sum_lanes(squares);
  return fma1(sum, 0.0f, 1.0f / __builtin_sqrtf(sum / static_cast<float>(n) + eps));
}

static void scale_mul(const float* x, float scale, const float* weight, int n, float* y) {
  const F8 s = set1(scale);
  for (int i = 0; i < n; i += 8) store(y + i, mul(mul(load(x + i), s), load(weight + i)));
}

// The first scale is NaN where a value is not finite, so that every product of the row is, too.
static void quantise(const float* x, int k, const QuantRow& out) {
  F8 zeros[4] = {zero(), zero(), zero(), zero()};  // sums of x * 0
  for (int b = 0; b < k / kBlock; ++b) {
    F8 v[4], largest = zero();
    for (int i = 0; i < 4; ++i) {
      v[i] = load(x + b * kBlock + 8 * i);
      largest = max(abs(v[i]), largest);
      zeros[i] = fma(v[i], zero(), zeros[i]);
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
  out.scale[0] += sum_lanes(add(add(zeros[0], zeros[1]), add(zeros[2], zeros[3])));
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
