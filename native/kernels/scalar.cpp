// The scalar twin: plain C++ for any machine, and the yardstick of every other variant.
#include "../tiles.hpp"

namespace ga::scalar {
#include "lanes_scalar.hpp"
#include "wide_scalar.hpp"
#include "body.hpp"
}  // namespace ga::scalar

namespace ga {
const Kernels& scalar_kernels() { return scalar::table("scalar"); }
}  // namespace ga
