// AVX-512 with VNNI. This file alone is compiled with those flags.
#include "../tiles.hpp"

#if defined(__AVX512VNNI__) && defined(__AVX512VL__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
#include <immintrin.h>

namespace ga::avx512 {
#include "lanes_avx2.hpp"
#include "ints512.hpp"
#include "wide_vnni.hpp"
#include "body.hpp"
}  // namespace ga::avx512

namespace ga {
const Kernels* avx512_kernels() { return &avx512::table("avx512"); }
}  // namespace ga
#else
namespace ga {
const Kernels* avx512_kernels() { return nullptr; }
}  // namespace ga
#endif
