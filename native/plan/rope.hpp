// Sine and cosine with plain arithmetic only, so that every machine rotates by the same angles.
#pragma once

namespace ga {

struct SinCos {
  double sin, cos;
};

// x >= 0, up to about 1e6 radians; absolute error under 1e-15.
SinCos sin_cos(double x);

}  // namespace ga
