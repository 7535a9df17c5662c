// Which variant runs: the best one that the CPU has and that gives the scalar twin's bits.
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "isa/kernels.hpp"

namespace ga {
namespace {

#if defined(__x86_64__)
bool cpu_has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}
// GCC 12 does not know AVX-VNNI by name: leaf 7.1, eax bit 4.
bool cpu_has_avxvnni() {
  unsigned eax, ebx, ecx, edx;
  return cpu_has_avx2() && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax >> 4 & 1);
}
bool cpu_has_avx512() {
  return cpu_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
#else
bool cpu_has_avx2() { return false; }
bool cpu_has_avxvnni() { return false; }
bool cpu_has_avx512() { return false; }
#endif

#if defined(__aarch64__) && defined(__APPLE__)
bool cpu_has_dot_product() {
  int has = 0;
  std::size_t size = sizeof(has);
  return sysctlbyname("hw.optional.arm.FEAT_DotProd", &has, &size, nullptr, 0) == 0 && has != 0;
}
#elif defined(__aarch64__)
bool cpu_has_dot_product() { return getauxval(AT_HWCAP) & HWCAP_ASIMDDP; }
#else
bool cpu_has_dot_product() { return false; }
#endif

}  // namespace

const std::vector<const Kernels*>& usable_kernels() {
  static const std::vector<const Kernels*> usable = [] {
    std::vector<const Kernels*> list;
    const auto offer = [&](const Kernels* kernels, bool cpu_has_it) {
      if (kernels != nullptr && cpu_has_it && passes_self_test(*kernels)) list.push_back(kernels);
    };
    offer(avx512_kernels(), cpu_has_avx512());
    offer(avxvnni_kernels(), cpu_has_avxvnni());
    offer(avx2_kernels(), cpu_has_avx2());
    offer(neondot_kernels(), cpu_has_dot_product());
    list.push_back(&scalar_kernels());
    return list;
  }();
  return usable;
}

const Kernels& select_kernels(const std::string& isa) {
  const char* wished = isa.empty() ? std::getenv("GUESSAHEAD_ISA") : isa.c_str();
  if (wished == nullptr || *wished == '\0') return *usable_kernels().front();
  for (const Kernels* kernels : usable_kernels())
    if (std::strcmp(kernels->name, wished) == 0) return *kernels;
  throw std::invalid_argument("instruction set " + std::string(wished) + " is unknown or not usable here" +
                              (isa.empty() ? " (GUESSAHEAD_ISA)" : ""));
}

}  // namespace ga
