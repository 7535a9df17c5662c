// The scalar twin: plain C++ for any machine, and the yardstick of every other variant.
#include "formats/halves.hpp"
#include "isa/kernels.hpp"

namespace ga::scalar {
#include "isa/lanes_scalar.hpp"
#include "isa/doubles_scalar.hpp"
#include "isa/wide_scalar.hpp"
#include "kernels/dots_scalar.hpp"
#include "kernels/all.hpp"
}  // namespace ga::scalar

namespace ga {
const Kernels& scalar_kernels() { return scalar::table("scalar"); }
}  // namespace ga
