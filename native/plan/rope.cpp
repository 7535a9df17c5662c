#include "plan/rope.hpp"

#include <cstdint>

namespace ga {
namespace {

// pi/2 in three parts; the first two have 33 significant bits, so their product with a quadrant number below
// 2^20 is exact (Cody and Waite's reduction).
constexpr double kPart1 = 0x1.921fb544p+0;
constexpr double kPart2 = 0x1.0b4611a6p-34;
constexpr double kPart3 = 0x1.3198a2e037073p-69;

// Taylor series; |x| <= pi/4 leaves less than 1e-17.
double series(double x, double x2, int first) {
  double term_sum = 0.0;
  for (int n = first + 18; n > first; n -= 2) term_sum = (term_sum + 1.0) * (-x2 / (n * (n - 1.0)));
  return x + x * term_sum;
}

}  // namespace

SinCos sin_cos(double x) {
  const auto quadrant = static_cast<std::int64_t>(x * 0.63661977236758134308 + 0.5);
  const auto q = static_cast<double>(quadrant);
  const double r = ((x - q * kPart1) - q * kPart2) - q * kPart3;
  const double sin = series(r, r * r, 1), cos = series(1.0, r * r, 0);
  switch (quadrant & 3) {
    case 0:
      return {sin, cos};
    case 1:
      return {cos, -sin};
    case 2:
      return {-sin, -cos};
    default:
      return {-cos, sin};
  }
}

}  // namespace ga
