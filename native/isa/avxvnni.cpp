// AVX2 with AVX-VNNI (byte dot products on 256 bits). This file alone is compiled with those flags.
#include "isa/kernels.hpp"

#if defined(__AVX2__) && defined(__AVXVNNI__)
#include <immintrin.h>

namespace ga::avxvnni {
#include "isa/lanes_avx2.hpp"
#include "isa/doubles_avx2.hpp"
#include "isa/ints256.hpp"
#include "kernels/dots_bytes.hpp"
#include "kernels/all.hpp"
}  // namespace ga::avxvnni

namespace ga {
const Kernels* avxvnni_kernels() { return &avxvnni::table("avxvnni"); }
}  // namespace ga
#else
namespace ga {
const Kernels* avxvnni_kernels() { return nullptr; }
}  // namespace ga
#endif
