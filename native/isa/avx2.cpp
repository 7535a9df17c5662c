// AVX2 + FMA + F16C. This file alone is compiled with those flags.
#include "isa/kernels.hpp"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>

namespace ga::avx2 {
#include "isa/lanes_avx2.hpp"
#include "isa/doubles_avx2.hpp"
#include "isa/wide_avx2.hpp"
#include "kernels/dots_pairs.hpp"
#include "kernels/all.hpp"
}  // namespace ga::avx2

namespace ga {
const Kernels* avx2_kernels() { return &avx2::table("avx2"); }
}  // namespace ga
#else
namespace ga {
const Kernels* avx2_kernels() { return nullptr; }
}  // namespace ga
#endif
