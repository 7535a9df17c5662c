// Neon with byte dot products (ARMv8.2 and later). This file alone is compiled with those flags.
#include "isa/kernels.hpp"

#if defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>

namespace ga::neondot {
#include "isa/lanes_neon.hpp"
#include "isa/doubles_neon.hpp"
#include "isa/ints_neon.hpp"
#include "kernels/dots_bytes.hpp"
#include "kernels/all.hpp"
}  // namespace ga::neondot

namespace ga {
const Kernels* neondot_kernels() { return &neondot::table("neondot"); }
}  // namespace ga
#else
namespace ga {
const Kernels* neondot_kernels() { return nullptr; }
}  // namespace ga
#endif
