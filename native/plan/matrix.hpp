// Weight matrices in memory: huge pages, a stripe of tiles per worker.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "isa/kernels.hpp"
#include "threads/pool.hpp"

namespace ga {

// Memory for weights on huge pages where the system grants them: one stream per worker, handed out front to
// back. A worker reads its share of one matrix after the other, so the prefetch of one runs on into the next.
class Arena {
 public:
  Arena(std::size_t bytes_per_stream, int streams);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  std::uint8_t* allocate(int stream, std::size_t bytes);  // 64-byte aligned; std::bad_alloc when full

 private:
  void* mapping_;
  std::size_t mapped_bytes_, stream_bytes_;
  std::uint8_t* data_;
  std::vector<std::size_t> used_;
};

// The tiles of a matrix that belong to one worker.
struct Stripe {
  int begin, end;
  std::uint8_t* data;
};

// A weight matrix of n outputs by k inputs, repacked into tiles.
struct Matrix {
  Format format;
  int n, k;
  std::size_t tile_bytes;
  std::shared_ptr<Arena> arena;
  std::vector<Stripe> stripes;
  int tiles() const { return (n + kLanes - 1) / kLanes; }
  int blocks() const { return (k + kBlock - 1) / kBlock; }
  const std::uint8_t* tile(int index) const;
};

// `order`: which row of the file becomes output i (n entries), or null. Runs on all workers of the pool; one
// stripe each.
std::shared_ptr<Matrix> pack_matrix(Pool& pool, std::shared_ptr<Arena> arena, Format format, int n, int k,
                                    const std::uint8_t* data, const int* order);
std::size_t packed_bytes(Format format, int n, int k);  // of all stripes together, and room for rounding

// A job with what depends on the matrix alone, for the tiles of one stripe.
Matmul matmul_of(const Matrix& matrix, const Stripe& stripe);

}  // namespace ga
