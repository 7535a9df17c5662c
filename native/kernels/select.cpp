// Which variant runs: the best one that the CPU has and that gives the scalar twin's bits.
#include <cstring>
#include <vector>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "../tiles.hpp"

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

// A small fixed sequence of odd numbers in [-1, 1).
struct Noise {
  std::uint64_t state = 1;
  std::uint32_t bits() {
    return static_cast<std::uint32_t>((state = state * 6364136223846793005u + 1) >> 32);
  }
  float value() { return static_cast<float>(static_cast<std::int32_t>(bits())) * 0x1p-31f; }
};

struct Trial {
  static constexpr int rows = 5, n = 13, k = 256, tiles = 2;
  std::vector<float> x, out;
  std::vector<std::int8_t> q;
  std::vector<float> scales;
  std::vector<std::int16_t> sums;
  std::vector<std::uint8_t> packed;

  Trial(Kind kind) : x(rows * k), q(rows * k), scales(2 * rows * k / kBlock), sums(rows * k / 16) {
    Noise noise;
    for (float& value : x) value = noise.value();
    const std::size_t row_bytes = file_row_bytes(kind, k);
    std::vector<std::uint8_t> file(n * row_bytes);
    for (auto& byte : file) byte = static_cast<std::uint8_t>(noise.bits() >> 24);
    // Random bytes as f16, bf16 or f32 may be infinite; clear a bit of each exponent.
    const int step = kind == Kind::F32 ? 4 : 2;
    if (!is_quantised(kind))
      for (std::size_t i = step - 1; i < file.size(); i += step) file[i] &= 0xbf;
    const FileLayout& format = layout(own_format(kind));
    for (const int half : {format.scale_at, format.min_at})
      for (std::size_t i = half + 1; half >= 0 && i < file.size(); i += format.bytes) file[i] &= 0xbf;
    packed.resize(tiles * tile_bytes(kind, k) + 4096);
    for (int tile = 0; tile < tiles; ++tile) {
      const std::uint8_t* from[kLanes];
      for (int i = 0; i < kLanes; ++i)
        from[i] = tile * kLanes + i < n ? file.data() + (tile * kLanes + i) * row_bytes : nullptr;
      pack_tile(kind, from, k, packed.data() + tile * tile_bytes(kind, k));
    }
  }

  // The results of a variant: int8 route, then f32 route.
  std::vector<float> run(const Kernels& kernels, Kind kind) {
    QuantRows quant{q.data(), scales.data(),    scales.data() + scales.size() / 2, sums.data(), k,
                    rows,     kernels.most_rows};
    for (int r = 0; r < rows; ++r) kernels.quantise(x.data() + r * k, k, quant.row(r));
    out.assign(2 * rows * n, 0.0f);
    Matmul job{
        packed.data(), 0,    tile_bytes(kind, k), n, k / kBlock, rows, x.data(), k, quant, out.data(), n,
        nullptr,       false};
    const int index = static_cast<int>(kind);
    if (is_quantised(kind)) kernels.matmul_int8[index](job, 0, tiles);
    job.out = out.data() + rows * n;
    kernels.matmul_float[index](job, 0, tiles);
    return out;
  }
};

// The small functions on one row each, and attention over a half-filled page.
std::vector<float> run_rest(const Kernels& kernels) {
  constexpr int n = 64;
  Noise noise;
  std::vector<float> a(n), b(n), page(2 * kPage * n), out(5 * n);
  for (float& value : a) value = 4.0f * noise.value();
  for (float& value : b) value = noise.value();
  for (float& value : page) value = noise.value();
  kernels.scale_mul(a.data(), kernels.rms_scale(a.data(), 1e-5f, n), b.data(), n, out.data());
  kernels.silu_mul(a.data(), b.data(), out.data() + n, n);
  std::memcpy(out.data() + 2 * n, a.data(), n * sizeof(float));
  kernels.rope(out.data() + 2 * n, b.data(), a.data(), 20, n, 0.3f);
  kernels.gelu_mul(a.data(), b.data(), out.data() + 3 * n, n);
  std::memcpy(out.data() + 4 * n, a.data(), n * sizeof(float));
  kernels.cap(out.data() + 4 * n, 1.5f, 2.0f, n);
  std::vector<std::uint16_t> half_page(page.size());
  for (std::size_t i = 0; i < page.size(); ++i) half_page[i] = float_to_half(page[i]);
  std::vector<float> queries_of(7 * n), results(7 * n);
  for (float& value : queries_of) value = noise.value();
  Query queries[7];
  Query* order[7];
  for (int i = 0; i < 7; ++i) {
    queries[i] = {&queries_of[i * n], &results[i * n],     0, 0, 10 + 17 * i,
                  i == 3 ? 20 : 0,    i == 1 ? 1.5f : 0.0f};
    order[i] = queries + i;
  }
  kernels.attend(order, 7, page.data(), page.data() + kPage * n, 0, n, nullptr);
  kernels.attend_half(order + 4, 3, half_page.data(), half_page.data() + kPage * n, 64, n, nullptr);
  kernels.combine(queries[0], queries[1], n);
  for (int i = 0; i < 7; ++i) {
    out.push_back(queries[i].sum);
    out.push_back(queries[i].max);
  }
  out.insert(out.end(), results.begin(), results.end());
  return out;
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool passes_self_test(const Kernels& kernels) {
  for (int kind = 0; kind < kNumKinds; ++kind) {
    Trial trial(static_cast<Kind>(kind));
    if (!same(trial.run(scalar_kernels(), static_cast<Kind>(kind)),
              trial.run(kernels, static_cast<Kind>(kind))))
      return false;
  }
  return same(run_rest(scalar_kernels()), run_rest(kernels));
}

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

const Kernels* select_kernels(const char* isa) {
  if (isa == nullptr || *isa == '\0') return usable_kernels().front();
  for (const Kernels* kernels : usable_kernels())
    if (std::strcmp(kernels->name, isa) == 0) return kernels;
  return nullptr;
}

}  // namespace ga
