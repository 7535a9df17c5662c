// log and the noise of `choose`, operation for operation as in src/guessahead/sampling.py.
// Needs separate rounding of every operation: no contraction to fused multiply-add, no fast-math.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "choose/constants.hpp"

namespace ga::choosing {

// Natural logarithm of a normal x > 0.
inline double log(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int64_t exponent = static_cast<int64_t>(bits >> 52) - 1022;
  double mantissa = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFu) | 0x3FE0000000000000u);
  if (mantissa < 0.7071067811865476) {
    mantissa = mantissa * 2.0;
    exponent -= 1;
  }
  const double f = mantissa - 1.0;
  const double e = static_cast<double>(exponent);
  const double s = f / (f + 2.0);
  const double z = s * s;
  double p = 1.0 / 19.0;
  for (int odd = 17; odd >= 3; odd -= 2) p = p * z + 1.0 / odd;
  const double twice = s + s;
  const double tail = twice * (z * p);
  return e * kLn2High + (twice + (tail + e * kLn2Low));
}

// Gumbel noise of one position, from a counter-based hash.
class Noise {
 public:
  static constexpr double kLargest = 37.0;  // no noise reaches it: -log(2^-53) = 36.74

  Noise(uint64_t seed, uint64_t stream, uint64_t position) {
    const uint64_t a = mix(mix(mix(seed + kGolden) + (stream + 1) * kGolden) + (position + 1) * kGolden);
    key_0_ = mix(a + kGolden);
    key_1_ = mix(a + 2 * kGolden);
  }

  uint64_t hash(uint64_t token) const {
    uint64_t x = key_0_ + (token + 1) * kGolden;
    x = ((x ^ (x >> 30)) * kMix1) ^ key_1_;
    x = (x ^ (x >> 27)) * kMix2;
    return x ^ (x >> 31);
  }

  static double gumbel(uint64_t hash) {
    const double uniform = static_cast<double>(static_cast<int64_t>(2 * (hash >> 12) + 1)) * 0x1p-53;
    return -log(-log(uniform));
  }

  // Every hash below the bar has a noise below `gap` (>= -4). On the safe side by 1e-9, which is far more
  // than the rounding errors of std::exp, of `log` and of the score.
  static uint64_t bar(double gap) {
    if (gap > kLargest) return UINT64_MAX;
    const double uniform = std::exp(-std::exp(1e-9 - gap)) * (1.0 - 1e-11);
    return static_cast<uint64_t>(uniform * 0x1p52) << 12;
  }

 private:
  static constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;
  static constexpr uint64_t kMix1 = 0xBF58476D1CE4E5B9u;
  static constexpr uint64_t kMix2 = 0x94D049BB133111EBu;

  static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * kMix1;
    x = (x ^ (x >> 27)) * kMix2;
    return x ^ (x >> 31);
  }

  uint64_t key_0_;
  uint64_t key_1_;
};

}  // namespace ga::choosing
