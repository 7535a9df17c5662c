#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "plan/matrix.hpp"

namespace ga {
namespace {
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr int kStripeTiles = kBlock / kLanes;            // stripes begin at whole blocks of outputs
constexpr std::size_t kBeyond = std::size_t{256} << 10;  // room for the prefetch of what follows the end
}  // namespace

Arena::Arena(std::size_t bytes_per_stream, int streams)
    : stream_bytes_((bytes_per_stream + kBeyond + kHugePage - 1) / kHugePage * kHugePage), used_(streams, 0) {
  mapped_bytes_ = stream_bytes_ * streams + kHugePage;
  mapping_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  madvise(mapping_, mapped_bytes_, MADV_HUGEPAGE);
#endif
  const auto start = reinterpret_cast<std::uintptr_t>(mapping_);
  data_ = reinterpret_cast<std::uint8_t*>((start + kHugePage - 1) / kHugePage * kHugePage);
}

Arena::~Arena() { munmap(mapping_, mapped_bytes_); }

std::uint8_t* Arena::allocate(int stream, std::size_t bytes) {
  const std::size_t rounded = (bytes + 63) / 64 * 64;
  if (rounded + kBeyond > stream_bytes_ - used_.at(stream)) throw std::bad_alloc();
  used_[stream] += rounded;
  return data_ + stream * stream_bytes_ + used_[stream] - rounded;
}

std::size_t packed_bytes(Format format, int n, int k) {
  return tile_bytes(format, k) * ((n + kLanes - 1) / kLanes + kStripeTiles) + 64;
}

const std::uint8_t* Matrix::tile(int index) const {
  const Stripe* stripe = stripes.data();
  while (index >= stripe->end) ++stripe;
  return stripe->data + (index - stripe->begin) * tile_bytes;
}

std::shared_ptr<Matrix> pack_matrix(Pool& pool, std::shared_ptr<Arena> arena, Format format, int n, int k,
                                    const std::uint8_t* data, const int* order) {
  auto matrix = std::make_shared<Matrix>(Matrix{format, n, k, tile_bytes(format, k), arena, {}});
  const int workers = pool.size(), tiles = matrix->tiles(), units = (tiles + kStripeTiles - 1) / kStripeTiles;
  for (int w = 0; w < workers; ++w) {
    const int begin = std::min(w * units / workers * kStripeTiles, tiles);
    const int end = std::min((w + 1) * units / workers * kStripeTiles, tiles);
    matrix->stripes.push_back({begin, end, arena->allocate(w, (end - begin) * matrix->tile_bytes)});
  }
  const std::size_t row_bytes = file_row_bytes(format, k);
  pool.run([&](int worker) {  // each worker touches its own stripe first
    const Stripe& stripe = matrix->stripes[worker];
    for (int tile = stripe.begin; tile < stripe.end; ++tile) {
      const std::uint8_t* rows[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        const int out = tile * kLanes + i;
        rows[i] = out < n ? data + row_bytes * (order == nullptr ? out : order[out]) : nullptr;
      }
      pack_tile(format, rows, k, stripe.data + (tile - stripe.begin) * matrix->tile_bytes);
    }
  });
  return matrix;
}

Matmul matmul_of(const Matrix& matrix, const Stripe& stripe) {
  Matmul job{};
  job.tiles = stripe.data;
  job.first_tile = stripe.begin;
  job.tile_bytes = matrix.tile_bytes;
  job.n = matrix.n;
  job.blocks = matrix.blocks();
  return job;
}

}  // namespace ga
