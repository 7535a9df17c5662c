// Compares every usable variant of the kernels with the scalar twin, bit for bit, without Python.
//
// Prints a line per variant and a hash of the scalar results, which must be the same on every architecture.
// Exits with 1 where a variant differs. test_kernels_program.py builds and runs it, emulated for ARM too.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "kernels_data.hpp"

namespace {

using namespace ga;

// ---- matrix products ----

std::vector<std::uint8_t> file_row(Format format, int k, Style style, Noise& noise) {
  std::vector<std::uint8_t> row(file_row_bytes(format, k));
  for (auto& byte : row) byte = static_cast<std::uint8_t>(noise.bits());
  const FormatInfo& layout = info(format);
  for (std::size_t at = 0; at < row.size(); at += layout.bytes) {
    if (format == Format::F32 || format == Format::BF16) {
      const auto value =
          std::bit_cast<std::uint32_t>(noise.value(style)) >> (format == Format::BF16 ? 16 : 0);
      std::memcpy(&row[at], &value, layout.bytes);
      continue;
    }
    const std::uint16_t scale = noise.half(style);
    const std::uint16_t min = noise.half(style);
    std::memcpy(&row[at + std::max(layout.scale_at, 0)], &scale, 2);
    if (layout.min_at >= 0) std::memcpy(&row[at + layout.min_at], &min, 2);
  }
  return row;
}

std::vector<std::uint8_t> weight(Format format, int n, int k, Style style, Noise& noise) {
  const int tiles = (n + kLanes - 1) / kLanes;
  std::vector<std::uint8_t> packed(tiles * tile_bytes(format, k));
  for (int tile = 0; tile < tiles; ++tile) {
    std::vector<std::vector<std::uint8_t>> rows;
    const std::uint8_t* from[kLanes] = {};
    for (int i = 0; i < kLanes && tile * kLanes + i < n; ++i) {
      rows.push_back(file_row(format, k, style, noise));
      from[i] = rows.back().data();
    }
    pack_tile(format, from, k, packed.data() + tile * tile_bytes(format, k));
  }
  return packed;
}

// Activations of a pass in a variant's own layout.
struct Quantised {
  std::vector<std::int8_t> q;
  std::vector<float> scales;
  std::vector<std::int16_t> sums;
  QuantRows rows;

  Quantised(const Kernels& kernels, const std::vector<float>& x, std::size_t stride, int count, int k)
      : q(count * k),
        scales(2 * count * k / kBlock),
        sums(count * k / 16),
        rows{q.data(),
             scales.data(),
             scales.data() + scales.size() / 2,
             sums.data(),
             static_cast<std::size_t>(k),
             count,
             kernels.most_rows} {
    for (int r = 0; r < count; ++r) kernels.quantise(x.data() + r * stride, k, rows.row(r));
  }
  void record(Results& results) const {
    for (int r = 0; r < rows.rows; ++r) {
      const QuantRow row = rows.row(r);
      for (std::size_t b = 0; b < rows.k / kBlock; ++b) {
        for (int i = 0; i < kBlock; ++i) results.add(row.q[(8 * b + i / 4) * 4 * row.step + i % 4]);
        results.add(row.scale[b * row.step]);
        results.add(row.scaled_sum[b * row.step]);
        for (int half = 0; half < 2; ++half) results.add(row.sums[2 * b * row.step + half]);
      }
    }
  }
};

struct Shape {
  Format format;
  int n, k, rows;
  Style style;
};

void product(const Kernels& kernels, const Shape& shape, std::uint64_t seed, Results& results) {
  const auto [format, n, k, rows, style] = shape;
  const int tiles = (n + kLanes - 1) / kLanes, split = 2 * (rows % (tiles / 2 + 1));
  const std::size_t bytes = tile_bytes(format, k), x_stride = k + 8, out_stride = n + 3;
  Noise noise(seed);
  const auto packed = weight(format, n, k, style, noise);
  const auto x = noise.values(rows * x_stride, style), bias = noise.values(tiles * kLanes, style);
  const auto before = noise.values(rows * out_stride, style);
  const Quantised quantised(kernels, x, x_stride, rows, k);
  if (format == Format::Q8_0) quantised.record(results);
  for (const auto* route : {kernels.matmul_int8, kernels.matmul_float}) {
    if (route[static_cast<int>(format)] == nullptr) continue;
    auto out = before;
    Matmul job{packed.data(),  0,          bytes,      n,
               k / kBlock,     rows,       x.data(),   x_stride,
               quantised.rows, out.data(), out_stride, rows % 3 == 0 ? nullptr : bias.data(),
               rows % 2 == 0};
    route[static_cast<int>(format)](job, 0, split);
    job.tiles += split * bytes;
    job.first_tile = split;
    route[static_cast<int>(format)](job, split, tiles);
    results.add(out);
  }
}

void products(const Kernels& kernels, Results& results) {
  constexpr int kOutputs[] = {29, 8, 1, 24, 13, 40, 7}, kBlocks[] = {1, 5, 8, 2};
  int turn = 0;
  for (int format = 0; format < kNumFormats; ++format)
    for (int rows = 1; rows <= 17; ++rows)
      for (int style = 0; style < kStyles; ++style, ++turn) {
        const int unit = tile_layout(static_cast<Format>(format)).unit;
        const int n = kOutputs[turn % 7], k = unit == 256 ? 256 * (1 + turn % 2) : 32 * kBlocks[turn % 4];
        results.begin(std::string(kFormats[format].name) + ", " + std::to_string(rows) + " rows, n " +
                      std::to_string(n) + ", k " + std::to_string(k) + ", " + kStyleNames[style]);
        product(kernels, {static_cast<Format>(format), n, k, rows, static_cast<Style>(style)}, turn, results);
      }
}

// ---- functions of one row ----

void row_functions(const Kernels& kernels, Results& results) {
  for (int style = 0; style < kStyles; ++style)
    for (int n = 1; n <= 136; n += 9) {
      results.begin("row of " + std::to_string(n) + ", " + kStyleNames[style]);
      Noise noise(1000 * n + style);
      const int padded = (n + 7) / 8 * 8;
      auto a = noise.values(padded, static_cast<Style>(style)),
           b = noise.values(padded, static_cast<Style>(style));
      for (int i = n; i < padded; ++i) a[i] = b[i] = 0.0f;  // as the engine keeps its buffers
      std::vector<float> y(padded);
      const float scale = kernels.rms_scale(a.data(), 1e-5f, n);
      results.add(scale);
      kernels.scale_mul(a.data(), scale, b.data(), n, y.data());
      results.add(y);
      kernels.silu_mul(a.data(), b.data(), y.data(), n);
      results.add(y);
      kernels.gelu_mul(a.data(), b.data(), y.data(), n);
      results.add(y);
      for (const float most : {0.0f, 30.0f}) {
        y = a;
        kernels.cap(y.data(), 0.5f + std::fabs(noise.plain()), most, n);
        results.add(y);
      }
      const int half = n / 2 - noise.below(n / 4 + 1);
      kernels.rope(a.data(), b.data(), b.data() + half, half, n, noise.plain());
      results.add(a);
    }
}

// ---- attention ----

void attend_all(const Kernels& kernels, int num, int head_dim, Style style, bool halves, Results& results) {
  Noise noise(10000 * num + 10 * head_dim + static_cast<int>(style));
  const std::size_t page = static_cast<std::size_t>(kPage) * head_dim;
  auto q = noise.values(num * head_dim, style);
  std::vector<float> out(num * head_dim);
  std::vector<Query> queries(num);
  for (int i = 0; i < num; ++i) {
    queries[i] = {&q[i * head_dim], &out[i * head_dim], 0, 0, noise.below(2 * kPage)};
    if (i % 3 == 1) queries[i].first = noise.below(queries[i].position + 1);  // of a window
    if (i % 4 == 2) queries[i].cap = 2.0f;
  }
  for (int first = 0; first < 2 * kPage; first += kPage) {
    std::vector<Query*> seeing;
    for (Query& query : queries)
      if (query.position >= first && query.first < first + kPage) seeing.push_back(&query);
    const int count = static_cast<int>(seeing.size());
    if (halves) {
      const auto keys = noise.halves(page, style), values = noise.halves(page, style);
      kernels.attend_half(seeing.data(), count, keys.data(), values.data(), first, head_dim, nullptr);
    } else {
      const auto keys = noise.values(page, style), values = noise.values(page, style);
      kernels.attend(seeing.data(), count, keys.data(), values.data(), first, head_dim, keys.data());
    }
  }
  for (int i = 0; i + 1 < num; i += 2) kernels.combine(queries[i], queries[i + 1], head_dim);
  Query none{q.data(), out.data(), 0, 0, 0};
  kernels.combine(none, queries[num - 1], head_dim);
  results.add(out);
  for (const Query& query : queries) {
    results.add(query.max);
    results.add(query.sum);
  }
}

void attention(const Kernels& kernels, Results& results) {
  constexpr int kHeads[] = {64, 8, 80, 32, 128};
  for (int style = 0; style < kStyles; ++style)
    for (int num = 1; num <= 9; ++num)
      for (const bool halves : {false, true}) {
        const int head_dim = kHeads[(num + style) % 5];
        results.begin("attention of " + std::to_string(num) + " over " + std::to_string(head_dim) + ", " +
                      kStyleNames[style] + (halves ? ", f16" : ", f32"));
        attend_all(kernels, num, head_dim, static_cast<Style>(style), halves, results);
      }
}

// ---- scans of logits ----

void scan(const Kernels& kernels, int n, Style style, Results& results) {
  Noise noise(100 * n + static_cast<int>(style));
  const std::vector<float> row = noise.values(n, style);
  const std::vector<double> wide(row.begin(), row.end());
  std::vector<double> maxima((n + 127) / 128);
  kernels.block_maxima(row.data(), n, maxima.data());
  results.add(maxima);
  kernels.block_maxima_double(wide.data(), n, maxima.data());
  results.add(maxima);
  for (const double scale : {0.1, 1.0, 10.0}) {
    results.add(kernels.sum_exp(row.data(), n, 4.0, scale));
    results.add(kernels.sum_exp_double(wide.data(), n, 4.0, scale));
  }
  const int padded = (n + 7) / 8 * 8;
  std::vector<double> distances(padded);
  for (int i = 0; i < n; ++i) distances[i] = -8.0 * std::fabs(wide[i]);
  std::vector<std::int64_t> weights(padded);
  std::vector<std::int32_t> buckets(padded);
  kernels.weigh(distances.data(), padded, weights.data(), buckets.data());
  for (int i = 0; i < n; ++i) {
    results.add(static_cast<double>(weights[i]));
    results.add(buckets[i]);
  }
}

void scans(const Kernels& kernels, Results& results) {
  for (int style = 0; style < kStyles; ++style)
    for (const int n : {1, 7, 8, 16, 127, 128, 129, 300}) {
      results.begin("scan of " + std::to_string(n) + ", " + kStyleNames[style]);
      scan(kernels, n, static_cast<Style>(style), results);
    }
}

Results run(const Kernels& kernels) {
  Results results;
  products(kernels, results);
  row_functions(kernels, results);
  attention(kernels, results);
  scans(kernels, results);
  return results;
}

}  // namespace

int main(int argc, char**) {
  const Results truth = run(scalar_kernels());
  const std::size_t count = truth.words.size();
  bool all_same = true;
  for (const Kernels* kernels : usable_kernels()) {
    const Results results = run(*kernels);
    std::size_t at = 0;
    while (at < count && results.words[at] == truth.words[at]) ++at;
    if (at == count) {
      std::printf("%s: same\n", kernels->name);
      continue;
    }
    all_same = false;
    const auto& [start, name] = truth.case_of(at);
    std::printf("%s: differs in value %zu of \"%s\": %08x, the scalar twin has %08x\n", kernels->name,
                at - start, name.c_str(), results.words[at], truth.words[at]);
  }
  // With any argument also a hash per case, to find out where two machines differ.
  for (std::size_t i = 0; argc > 1 && i < truth.cases.size(); ++i) {
    const std::size_t end = i + 1 < truth.cases.size() ? truth.cases[i + 1].first : count;
    std::printf("%016llx %s\n", truth.hash(truth.cases[i].first, end), truth.cases[i].second.c_str());
  }
  std::printf("hash of %zu values: %016llx\n", count, truth.hash(0, count));
  return all_same ? 0 : 1;
}
