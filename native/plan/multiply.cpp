// Matrix products as operations of the plan.
#include <algorithm>
#include <stdexcept>

#include "plan/plan.hpp"

namespace ga {
namespace {

constexpr int kChunkBytes = 32 * 1024;  // weight bytes handed to a worker at a time

// Tiles of about so many bytes, and of whole blocks of outputs.
int chunk_tiles(const Matrix& weight, std::size_t bytes) {
  return round_up(std::max<int>(1, bytes / weight.tile_bytes), kBlock / kLanes);
}

}  // namespace

// Adds a matrix to the lists of the workers.
void Plan::add_chunks(std::vector<std::vector<Chunk>>& lists, int part, const Matrix& weight,
                      const Buffer& src, Buffer& dst, int tiles_per_chunk) const {
  if (weight.k != src.width || weight.n != dst.width)
    throw std::invalid_argument("matmul: shapes do not fit");
  if (weight.stripes.size() != lists.size())
    throw std::invalid_argument("matmul: packed for another number of workers");
  for (std::size_t w = 0; w < lists.size(); ++w) {
    const Stripe& stripe = weight.stripes[w];
    Matmul job = matmul_of(weight, stripe);
    job.x = src.data.get();
    job.x_stride = src.stride;
    job.out = dst.data.get();
    job.out_stride = dst.stride;
    for (int begin = stripe.begin; begin < stripe.end; begin += tiles_per_chunk)
      lists[w].push_back({part, begin, std::min(begin + tiles_per_chunk, stripe.end), job});
  }
}

void Plan::multiply(const Chunk& chunk, Format format, const Buffer& src, int rows) const {
  Matmul job = chunk.job;
  job.rows = rows;
  job.quant = src.quant;
  const bool int8 = is_quantised(format) && src.quant.q != nullptr;
  (int8 ? kernels_->matmul_int8 : kernels_->matmul_float)[static_cast<int>(format)](job, chunk.begin,
                                                                                    chunk.end);
}

void Plan::matmul(int src_id, std::vector<Product> products) {
  Buffer& src = *buffers_.at(src_id);
  std::vector<std::vector<Chunk>> lists(pool_->size());
  for (std::size_t part = 0; part < products.size(); ++part) {
    const Product& product = products[part];
    const float* bias = product.bias < 0 ? nullptr : vectors_.at(product.bias).get();
    add_chunks(lists, static_cast<int>(part), *product.weight, src, *buffers_.at(product.dst),
               chunk_tiles(*product.weight, kChunkBytes));
    for (auto& list : lists)
      for (Chunk& chunk : list)
        if (chunk.part == static_cast<int>(part)) {
          chunk.job.bias = bias;
          chunk.job.accumulate = product.accumulate;
        }
  }
  add(src.compact ? "head" : "matmul", [this, &src, products = std::move(products), lists = std::move(lists)](
                                           Pass& pass, int worker, Counter* counters) {
    const int rows = rows_of(src, pass);
    if (rows == 0) return;
    OwnFirst<Chunk> work(lists, counters, worker);
    while (const Chunk* chunk = work.take())
      multiply(*chunk, products[chunk->part].weight->format, src, rows);
  });
}

void Plan::gated(int src_id, std::shared_ptr<Matrix> gate_weight, std::shared_ptr<Matrix> up_weight,
                 int gate_id, int up_id, int dst_id, bool gelu) {
  Buffer &src = *buffers_.at(src_id), &gate = *buffers_.at(gate_id), &up = *buffers_.at(up_id),
         &dst = *buffers_.at(dst_id);
  if (dst.width != gate.width || gate_weight->n != up_weight->n)
    throw std::invalid_argument("gated: shapes do not fit");
  // A chunk owns columns of whole blocks in both matrices, so that it can quantise what it made.
  std::vector<std::vector<Chunk>> gates(pool_->size()), ups(pool_->size());
  const int tiles_per_chunk = chunk_tiles(*gate_weight, kChunkBytes / 2);
  add_chunks(gates, 0, *gate_weight, src, gate, tiles_per_chunk);
  add_chunks(ups, 0, *up_weight, src, up, tiles_per_chunk);
  std::vector<std::vector<std::pair<Chunk, Chunk>>> lists(pool_->size());
  for (std::size_t w = 0; w < lists.size(); ++w) {
    for (std::size_t i = 0; i < gates[w].size(); ++i) lists[w].emplace_back(gates[w][i], ups[w][i]);
  }
  add("matmul", [=, this, &src, &dst, &gate, &up](Pass& pass, int worker, Counter* counters) {
    OwnFirst<std::pair<Chunk, Chunk>> work(lists, counters, worker);
    while (const auto* chunks = work.take()) {
      multiply(chunks->first, gate_weight->format, src, pass.rows);
      multiply(chunks->second, up_weight->format, src, pass.rows);
      const int column = chunks->first.begin * kLanes;
      const int n = std::min<int>(round_up(chunks->first.end * kLanes, kBlock), dst.stride) - column;
      for (int r = 0; r < pass.rows; ++r) {
        float* out = dst.row(r) + column;
        (gelu ? kernels_->gelu_mul : kernels_->silu_mul)(gate.row(r) + column, up.row(r) + column, out, n);
        if (dst.quant.q != nullptr) kernels_->quantise(out, n, dst.quant.row(r, column));
      }
    }
  });
}

}  // namespace ga
