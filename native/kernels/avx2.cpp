// AVX2 + FMA + F16C. This file alone is compiled with those flags.
#include "../tiles.hpp"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>

namespace ga::avx2 {
#include "lanes_avx2.hpp"
#include "wide_avx2.hpp"
#include "body.hpp"
}  // namespace ga::avx2

namespace ga {
const Kernels* avx2_kernels() { return &avx2::table("avx2"); }
}  // namespace ga
#else
namespace ga {
const Kernels* avx2_kernels() { return nullptr; }
}  // namespace ga
#endif
