// The loops of `choose`, and of drafters, that run over all logits of a row. Included by all.hpp; see there.
//
// Weights are what core/sampling.py defines: every operation is rounded by itself, none is fused.

static inline F8 same_as(const float*, double x) { return set1(static_cast<float>(x)); }
static inline D8 same_as(const double*, double x) { return set_double(x); }
static inline D8 load_wide(const float* p) { return widen(load(p)); }
static inline D8 load_wide(const double* p) { return load(p); }

// Sums of x * 0: NaN where a value is not finite. Doubles, which are checked before they are adjusted, may
// hold -inf.
static inline F8 add_zeros(F8 zeros, F8 x) { return fma(x, zero(), zeros); }
static inline D8 add_zeros(D8 zeros, D8) { return zeros; }
static inline float add_zeros(float zeros, float x) { return fma1(x, 0.0f, zeros); }
static inline double add_zeros(double zeros, double) { return zeros; }

// The largest value of each block of 128; of floats, NaN where a value of the block is not finite.
template <class T>
static inline void maxima_of(const T* x, std::size_t n, double* maxima) {
  for (std::size_t begin = 0; begin < n; begin += choosing::kScanBlock) {
    const std::size_t end = n - begin > choosing::kScanBlock ? begin + choosing::kScanBlock : n;
    auto largest = same_as(x, -__builtin_inf()), zeros = same_as(x, 0.0);
    std::size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      largest = max(load(x + i), largest);
      zeros = add_zeros(zeros, load(x + i));
    }
    T lanes[kLanes], lanes_of_zeros[kLanes];
    store(lanes, largest);
    store(lanes_of_zeros, zeros);
    T most = lanes[0], zero_sum = lanes_of_zeros[0];
    for (int lane = 1; lane < kLanes; ++lane) {
      most = lanes[lane] > most ? lanes[lane] : most;
      zero_sum += lanes_of_zeros[lane];
    }
    for (; i < end; ++i) {
      most = x[i] > most ? x[i] : most;
      zero_sum = add_zeros(zero_sum, x[i]);
    }
    *maxima++ = static_cast<double>(most + zero_sum);
  }
}
static void block_maxima(const float* x, std::size_t n, double* maxima) { maxima_of(x, n, maxima); }
static void block_maxima_double(const double* x, std::size_t n, double* maxima) { maxima_of(x, n, maxima); }

// rint(exp(d) * 2^40) of each distance d <= 0, and its bucket. NaN and everything below kWeightFloor give 0
// and the last bucket.
static void weigh(const double* distances, int n, std::int64_t* weights, std::int32_t* buckets) {
  const D8 rounder = set_double(0x1.8p52), one = set_double(1.0), magic = set_double(4096.0);
  // Adding `rounder` rounds to an integer, held in the low bits; 4096 has an ulp of 2^-40, so that the low
  // bits of the last sum are the weight.
  constexpr double kTerms[] = {1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0,
                               1.0 / 120.0,     1.0 / 24.0,     1.0 / 6.0,     1.0 / 2.0};
  for (int i = 0; i < n; i += kLanes) {
    const D8 d = max(load(distances + i), set_double(choosing::kWeightFloor));
    const D8 shifted = add(mul(d, set_double(1.4426950408889634)), rounder), whole = sub(shifted, rounder);
    const D8 r =
        sub(sub(d, mul(whole, set_double(choosing::kLn2High))), mul(whole, set_double(choosing::kLn2Low)));
    D8 p = set_double(1.0 / 39916800.0);
    for (const double term : kTerms) p = add(mul(p, r), set_double(term));
    p = add(mul(add(mul(p, r), one), r), one);
    store_bits_less(weights + i, add(add_shifted_bits<52>(p, shifted), magic), magic);
    store_truncated(buckets + i, mul(d, set_double(-choosing::kBucketsPerUnit)));
  }
}

// The sum of exp((x - maximum) * scale), distances below kWeightFloor (and NaN) taken for it. Relative error
// below 5e-6 for 128 values.
template <class T>
static inline float sum_exp_of(const T* x, int n, double maximum, double scale) {
  constexpr int kStep = 2 * kLanes;
  const D8 most = set_double(maximum), factor = set_double(scale), floor = set_double(choosing::kWeightFloor);
  F8 sums[2] = {zero(), zero()};
  const auto take = [&](const T* p) __attribute__((always_inline)) {
    for (int half = 0; half < 2; ++half) {
      const D8 distance = max(mul(sub(load_wide(p + half * kLanes), most), factor), floor);
      sums[half] = add(sums[half], exp8(narrow(distance)));
    }
  };
  int i = 0;
  for (; i + kStep <= n; i += kStep) take(x + i);
  if (i < n) {
    T rest[kStep];
    for (int j = 0; j < kStep; ++j) rest[j] = i + j < n ? x[i + j] : -static_cast<T>(__builtin_inf());
    take(rest);
  }
  return sum_lanes(add(sums[0], sums[1]));
}
static float sum_exp(const float* x, int n, double maximum, double scale) {
  return sum_exp_of(x, n, maximum, scale);
}
static float sum_exp_double(const double* x, int n, double maximum, double scale) {
  return sum_exp_of(x, n, maximum, scale);
}
