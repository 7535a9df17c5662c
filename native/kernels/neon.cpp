// Neon with byte dot products (ARMv8.2 and later). This file alone is compiled with those flags.
#include "../tiles.hpp"

#if defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>

namespace ga::neondot {
#include "lanes_neon.hpp"
#include "ints_neon.hpp"
#include "wide_vnni.hpp"
#include "body.hpp"
}  // namespace ga::neondot

namespace ga {
const Kernels* neondot_kernels() { return &neondot::table("neondot"); }
}  // namespace ga
#else
namespace ga {
const Kernels* neondot_kernels() { return nullptr; }
}  // namespace ga
#endif
