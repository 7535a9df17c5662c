// Weights in memory.
#include <sys/mman.h>

#include <new>

#include "plan.hpp"
#include "tiles.hpp"

namespace ga {

namespace {
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kBeyond = std::size_t{256} << 10;  // room for the prefetch of what follows the end
}  // namespace

Arena::Arena(std::size_t bytes) : mapped_bytes_(bytes + kHugePage + kBeyond), size_(bytes) {
  mapping_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  madvise(mapping_, mapped_bytes_, MADV_HUGEPAGE);
#endif
  const auto start = reinterpret_cast<std::uintptr_t>(mapping_);
  data_ = reinterpret_cast<std::uint8_t*>((start + kHugePage - 1) / kHugePage * kHugePage);
}

Arena::~Arena() { munmap(mapping_, mapped_bytes_); }

std::uint8_t* Arena::allocate(std::size_t bytes) {
  const std::size_t rounded = (bytes + 63) / 64 * 64;
  if (rounded > size_ - used_) throw std::bad_alloc();
  used_ += rounded;
  return data_ + used_ - rounded;
}

std::size_t packed_bytes(Kind kind, int n, int k) {
  const std::size_t bytes = tile_bytes(kind, k) * ((n + kLanes - 1) / kLanes);
  return (bytes + 63) / 64 * 64;
}

std::shared_ptr<Weight> pack_weight(Pool& pool, std::shared_ptr<Arena> arena, Kind kind, int n, int k,
                                    const std::uint8_t* data, const int* order) {
  std::uint8_t* tiles = arena->allocate(packed_bytes(kind, n, k));
  auto weight = std::make_shared<Weight>(Weight{kind, n, k, tile_bytes(kind, k), std::move(arena), tiles});
  const std::size_t row_bytes = file_row_bytes(kind, k);
  std::atomic<int> next{0};
  pool.run([&](int) {
    Claims claims(next, weight->tiles(), 8);
    for (int begin, end; claims.take(begin, end);) {
      for (int tile = begin; tile < end; ++tile) {
        const std::uint8_t* rows[kLanes];
        for (int i = 0; i < kLanes; ++i) {
          const int out = tile * kLanes + i;
          rows[i] = out < n ? data + row_bytes * (order == nullptr ? out : order[out]) : nullptr;
        }
        pack_tile(kind, rows, k, tiles + tile * weight->tile_bytes);
      }
    }
  });
  return weight;
}

Matmul matmul_of(const Weight& weight) {
  Matmul job{};
  job.tiles = weight.data;
  job.tile_bytes = weight.tile_bytes;
  job.n = weight.n;
  job.blocks = weight.blocks();
  return job;
}

}  // namespace ga
