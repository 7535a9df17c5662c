// Whether a variant gives the bits of the scalar twin, tried at load on a few numbers.
#include <cstring>
#include <vector>

#include "formats/halves.hpp"
#include "isa/kernels.hpp"

namespace ga {
namespace {

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

  Trial(Format format) : x(rows * k), q(rows * k), scales(2 * rows * k / kBlock), sums(rows * k / 16) {
    Noise noise;
    for (float& value : x) value = noise.value();
    const std::size_t row_bytes = file_row_bytes(format, k);
    std::vector<std::uint8_t> file(n * row_bytes);
    for (auto& byte : file) byte = static_cast<std::uint8_t>(noise.bits() >> 24);
    // Random bytes as f16, bf16 or f32 may be infinite; clear a bit of each exponent.
    const int step = format == Format::F32 ? 4 : 2;
    if (!is_quantised(format))
      for (std::size_t i = step - 1; i < file.size(); i += step) file[i] &= 0xbf;
    const FormatInfo& file_info = info(format);
    for (const int half : {file_info.scale_at, file_info.min_at})
      for (std::size_t i = half + 1; half >= 0 && i < file.size(); i += file_info.bytes) file[i] &= 0xbf;
    packed.resize(tiles * tile_bytes(format, k) + 4096);
    for (int tile = 0; tile < tiles; ++tile) {
      const std::uint8_t* from[kLanes];
      for (int i = 0; i < kLanes; ++i)
        from[i] = tile * kLanes + i < n ? file.data() + (tile * kLanes + i) * row_bytes : nullptr;
      pack_tile(format, from, k, packed.data() + tile * tile_bytes(format, k));
    }
  }

  // The results of a variant: int8 route, then f32 route.
  std::vector<float> run(const Kernels& kernels, Format format) {
    QuantRows quant{q.data(), scales.data(),    scales.data() + scales.size() / 2, sums.data(), k,
                    rows,     kernels.most_rows};
    for (int r = 0; r < rows; ++r) kernels.quantise(x.data() + r * k, k, quant.row(r));
    out.assign(2 * rows * n, 0.0f);
    Matmul job{
        packed.data(), 0,    tile_bytes(format, k), n, k / kBlock, rows, x.data(), k, quant, out.data(), n,
        nullptr,       false};
    const int index = static_cast<int>(format);
    if (is_quantised(format)) kernels.matmul_int8[index](job, 0, tiles);
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

// The scans of logits over one row, whose last block is not full.
template <class T>
std::vector<double> run_scans(const Kernels& kernels) {
  constexpr int n = 2 * choosing::kScanBlock + 19, padded = (n + 7) / 8 * 8;
  Noise noise;
  std::vector<T> row(n);
  for (T& value : row) value = static_cast<T>(20.0f * noise.value());
  std::vector<double> out(3), distances(padded);
  if constexpr (sizeof(T) == sizeof(float)) {
    kernels.block_maxima(row.data(), n, out.data());
    out.push_back(static_cast<double>(kernels.sum_exp(row.data(), n, 20.0, 0.7)));
  } else {
    kernels.block_maxima_double(row.data(), n, out.data());
    out.push_back(static_cast<double>(kernels.sum_exp_double(row.data(), n, 20.0, 0.7)));
  }
  for (int i = 0; i < n; ++i) distances[i] = static_cast<double>(row[i]) * 0.8 - 16.0;
  std::vector<std::int64_t> weights(padded);
  std::vector<std::int32_t> buckets(padded);
  kernels.weigh(distances.data(), padded, weights.data(), buckets.data());
  for (int i = 0; i < n; ++i) {
    out.push_back(static_cast<double>(weights[i]));
    out.push_back(static_cast<double>(buckets[i]));
  }
  return out;
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

}  // namespace

bool passes_self_test(const Kernels& kernels) {
  for (int i = 0; i < kNumFormats; ++i) {
    const auto format = static_cast<Format>(i);
    Trial trial(format);
    if (!same(trial.run(scalar_kernels(), format), trial.run(kernels, format))) return false;
  }
  return same(run_rest(scalar_kernels()), run_rest(kernels)) &&
         same(run_scans<float>(scalar_kernels()), run_scans<float>(kernels)) &&
         same(run_scans<double>(scalar_kernels()), run_scans<double>(kernels));
}

}  // namespace ga
