// Weights in memory.
#include <sys/mman.h>

#include <new>

#include "plan.hpp"
#include "tiles.hpp"

namespace ga {

Arena::Arena(std::size_t bytes) : bytes_(bytes + 4096) {  // room for the prefetch of what follows the end
  void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  madvise(p, bytes_, MADV_HUGEPAGE);
#endif
  data_ = static_cast<std::uint8_t*>(p);
}

Arena::~Arena() { munmap(data_, bytes_); }

std::shared_ptr<Weight> pack_weight(Pool& pool, Kind kind, int n, int k, const std::uint8_t* data,
                                    const int* order) {
  auto weight = std::make_shared<Weight>(Weight{kind, n, k, tile_bytes(kind, k), nullptr});
  weight->arena = std::make_unique<Arena>(weight->tile_bytes * weight->tiles());
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
        pack_tile(kind, rows, k, weight->arena->data() + tile * weight->tile_bytes);
      }
    }
  });
  return weight;
}

Matmul matmul_of(const Weight& weight) {
  Matmul job{};
  job.tiles = weight.arena->data();
  job.tile_bytes = weight.tile_bytes;
  job.n = weight.n;
  job.blocks = weight.blocks();
  return job;
}

}  // namespace ga
