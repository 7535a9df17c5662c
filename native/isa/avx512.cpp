// AVX-512 with VNNI. This file alone is compiled with those flags.
#include "isa/kernels.hpp"

#if defined(__AVX512VNNI__) && defined(__AVX512VL__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
#include <immintrin.h>

namespace ga::avx512 {
#include "isa/lanes_avx2.hpp"
#include "isa/doubles_avx512.hpp"
#include "isa/ints512.hpp"
#include "kernels/dots_bytes.hpp"
#include "kernels/all.hpp"
}  // namespace ga::avx512

namespace ga {
const Kernels* avx512_kernels() { return &avx512::table("avx512"); }
}  // namespace ga
#else
namespace ga {
const Kernels* avx512_kernels() { return nullptr; }
}  // namespace ga
#endif
