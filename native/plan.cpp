#include "plan.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "rope.hpp"
#include "tiles.hpp"

namespace ga {
namespace {

constexpr int kChunkBytes = 32 * 1024;  // weight bytes handed to a worker at a time

int round_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

// Tiles of about so many bytes, and of whole blocks of outputs.
int chunk_tiles(const Weight& weight, std::size_t bytes) {
  return round_up(std::max<int>(1, bytes / weight.tile_bytes), kBlock / kLanes);
}

}  // namespace

void Buffer::allocate(int rows, int columns, bool quantised) {
  width = columns;
  stride = round_up(columns, kBlock);
  data.reset(static_cast<float*>(std::calloc(rows * stride, sizeof(float))));
  if (data == nullptr) throw std::bad_alloc();
  if (!quantised) return;
  q.assign(rows * stride, 0);
  scales.assign(2 * rows * (stride / kBlock), 0.0f);
  sums.assign(rows * (stride / 16), 0);
  quant = {q.data(), scales.data(), scales.data() + scales.size() / 2, sums.data(), stride, 0, 1};
}

Plan::Plan(CacheShape shape, int max_rows, int context, std::shared_ptr<Pool> pool, const Kernels* kernels)
    : shape_(shape),
      max_rows_(max_rows),
      context_(context),
      pool_(std::move(pool)),
      kernels_(kernels),
      counters_(2 * pool_->size()),
      scratch_(pool_->size()),
      out_index_(max_rows, -1) {
  for (Scratch& scratch : scratch_) scratch.block.resize(shape_.head_bytes());
}

// ---- description ----

int Plan::buffer(int width, bool quantised, bool compact) {
  auto buffer = std::make_unique<Buffer>();
  buffer->compact = compact;
  buffer->allocate(max_rows_, width, quantised);
  buffers_.push_back(std::move(buffer));
  return static_cast<int>(buffers_.size()) - 1;
}

int Plan::vector(const float* data, int n) {
  vectors_.push_back(std::make_unique<float[]>(round_up(n, kBlock)));
  std::copy(data, data + n, vectors_.back().get());
  return static_cast<int>(vectors_.size()) - 1;
}

void Plan::add(const char* label, Work work, int tap, bool many_segments) {
  operations_.push_back({label, std::move(work), tap, many_segments, given_width_});
}

int Plan::rows_of(const Buffer& buffer, const Pass& pass) const {
  return buffer.compact ? static_cast<int>(pass.out_rows.size()) : pass.rows;
}

void Plan::embed(std::shared_ptr<Weight> table, int dst_id, float scale) {
  Buffer& dst = *buffers_.at(dst_id);
  num_tokens_ = table->n;
  add("embed", [this, table, &dst, scale](Pass& pass, int, Counter* counters) {
    Claims claims(counters->next, pass.rows);
    for (int r; claims.take(r);) {
      const int token = pass.tokens[r];
      const std::uint8_t* tile = table->tile(token / kLanes);
      float* out = dst.row(r);
      for (int b = 0; b < table->blocks(); ++b)
        unpack_row(table->kind, tile, b, token % kLanes, out + b * kBlock, 1);
      if (scale != 1.0f)
        for (int i = 0; i < dst.width; ++i) out[i] *= scale;
    }
  });
}

void Plan::rmsnorm(int src_id, int weight_id, float eps, int dst_id, int column) {
  Buffer &src = *buffers_.at(src_id), &dst = *buffers_.at(dst_id);
  if (column < 0 || column % kBlock != 0 || column + src.width > dst.width)
    throw std::invalid_argument("rmsnorm: the columns do not fit");
  const float* weight = vectors_.at(weight_id).get();
  // Every worker takes its share of the columns of all rows and finds the scales of the rows by itself: rows
  // that are quantised lie interleaved, so sharing out rows would make workers write to the same cache lines.
  const int columns = round_up((src.stride + pool_->size() - 1) / pool_->size(), 2 * kBlock);
  add("norm", [this, &src, &dst, weight, eps, column, columns](Pass& pass, int worker, Counter*) {
    const bool gather = dst.compact && !src.compact;
    const int rows = rows_of(dst, pass), stride = static_cast<int>(src.stride);
    const int first = worker * columns, n = std::min(columns, stride - first);
    if (n <= 0) return;
    for (int r = 0; r < rows; ++r) {
      const float* x = src.row(gather ? pass.out_rows[r] : r);
      float* y = dst.row(r) + column + first;
      kernels_->scale_mul(x + first, kernels_->rms_scale(x, eps, src.width), weight + first, n, y);
      if (dst.quant.q != nullptr) kernels_->quantise(y, n, dst.quant.row(r, column + first));
    }
  });
}

void Plan::copy(int src_id, int dst_id) {
  Buffer &src = *buffers_.at(src_id), &dst = *buffers_.at(dst_id);
  if (src.width != dst.width) throw std::invalid_argument("copy: widths differ");
  add("norm", [this, &src, &dst](Pass& pass, int, Counter* counters) {
    Claims claims(counters->next, pass.rows);
    for (int r; claims.take(r);) {
      std::copy_n(src.row(r), src.width, dst.row(r));
      if (dst.quant.q != nullptr) kernels_->quantise(dst.row(r), dst.stride, dst.quant.row(r));
    }
  });
}

void Plan::norm_groups(int buffer_id, int weight_id, float eps, int size) {
  Buffer& buffer = *buffers_.at(buffer_id);
  const float* weight = vectors_.at(weight_id).get();
  if (size < kLanes || size % kLanes != 0 || buffer.width % size != 0)
    throw std::invalid_argument("norm_groups: a group is a multiple of 8 columns that divides the width");
  add("norm", [this, &buffer, weight, eps, size](Pass& pass, int, Counter* counters) {
    Claims claims(counters->next, pass.rows);
    for (int r; claims.take(r);)
      for (float* x = buffer.row(r); x < buffer.row(r) + buffer.width; x += size)
        kernels_->scale_mul(x, kernels_->rms_scale(x, eps, size), weight, size, x);
  });
}

void Plan::add_scaled(int src_id, int dst_id, float scale, int weight_id, float eps) {
  Buffer &src = *buffers_.at(src_id), &dst = *buffers_.at(dst_id);
  if (src.width != dst.width) throw std::invalid_argument("add_scaled: widths differ");
  const float* weight = weight_id < 0 ? nullptr : vectors_.at(weight_id).get();
  add("norm", [this, &src, &dst, scale, weight, eps](Pass& pass, int, Counter* counters) {
    Claims claims(counters->next, pass.rows);
    const int stride = static_cast<int>(src.stride);
    for (int r; claims.take(r);) {
      float *x = src.row(r), *y = dst.row(r);
      if (weight != nullptr)
        kernels_->scale_mul(x, kernels_->rms_scale(x, eps, src.width), weight, stride, x);
      for (int i = 0; i < src.width; ++i) y[i] += x[i] * scale;
    }
  });
}

void Plan::cap(int buffer_id, float divisor, float most) {
  Buffer& buffer = *buffers_.at(buffer_id);
  const int stride = static_cast<int>(buffer.stride),
            columns = round_up((stride + pool_->size() - 1) / pool_->size(), kBlock);
  add("head", [this, &buffer, divisor, most, stride, columns](Pass& pass, int worker, Counter*) {
    const int first = worker * columns, n = std::min(columns, stride - first), rows = rows_of(buffer, pass);
    for (int r = 0; r < rows && n > 0; ++r) kernels_->cap(buffer.row(r) + first, divisor, most, n);
  });
}

// Adds a matrix to the lists of the workers.
void Plan::add_chunks(std::vector<std::vector<Chunk>>& lists, int part, const Weight& weight,
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

void Plan::multiply(const Chunk& chunk, Kind kind, const Buffer& src, int rows) const {
  Matmul job = chunk.job;
  job.rows = rows;
  job.quant = src.quant;
  const bool int8 = is_quantised(kind) && src.quant.q != nullptr;
  (int8 ? kernels_->matmul_int8 : kernels_->matmul_float)[static_cast<int>(kind)](job, chunk.begin,
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
    while (const Chunk* chunk = work.take()) multiply(*chunk, products[chunk->part].weight->kind, src, rows);
  });
}

void Plan::gated(int src_id, std::shared_ptr<Weight> gate_weight, std::shared_ptr<Weight> up_weight,
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
      multiply(chunks->first, gate_weight->kind, src, pass.rows);
      multiply(chunks->second, up_weight->kind, src, pass.rows);
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

void Plan::given(int dst_id) {
  Buffer& dst = *buffers_.at(dst_id);
  if (dst.width != given_width_) throw std::invalid_argument("given: not the width that is described");
  given_widths_.push_back(dst.width);
  add("given", [this, &dst](Pass& pass, int, Counter* counters) {
    Claims claims(counters->next, static_cast<int>(pass.requests.size()));
    for (int i; claims.take(i);) {
      const Request& request = pass.requests[i];
      for (int r = 0; r < request.num; ++r) {
        float* out = dst.row(request.first_row + r);
        std::copy_n(request.given + static_cast<std::size_t>(r) * dst.width, dst.width, out);
        if (dst.quant.q != nullptr)
          kernels_->quantise(out, dst.stride, dst.quant.row(request.first_row + r));
      }
    }
  });
}

void Plan::tap(int src_id) {
  Buffer& src = *buffers_.at(src_id);
  const int index = static_cast<int>(taps_.size());
  taps_.emplace_back();
  tap_width_ = src.width;
  add(
      "tap",
      [this, &src, index](Pass& pass, int worker, Counter*) {
        if (worker != 0) return;
        for (int r = 0; r < pass.rows; ++r)
          std::copy_n(src.row(r), src.width, taps_[index].data() + static_cast<std::size_t>(r) * src.width);
      },
      index);
}

void Plan::logits(int src) { logits_ = buffers_.at(src).get(); }

// ---- execution ----

void Plan::check(const std::vector<Request>& requests) const {
  int rows = 0;
  for (const Request& request : requests) {
    rows += request.num;
    if (request.given_width != requests.front().given_width ||
        (request.given_width == 0) != given_widths_.empty() ||
        (request.given_width != 0 && std::find(given_widths_.begin(), given_widths_.end(),
                                               request.given_width) == given_widths_.end()))
      throw std::invalid_argument("forward: the vectors that come with the rows have a wrong width");
    if (request.num < 1 || rows > max_rows_) throw std::invalid_argument("forward: no rows, or too many");
    if (request.committed < 1 || request.committed > request.num)
      throw std::invalid_argument("forward: committed rows out of range");
    std::vector<int> depth(request.num);
    int deepest = 0;
    for (int i = 0; i < request.num; ++i) {
      const int parent = request.parents == nullptr ? i - 1 : request.parents[i];
      const bool chain = i < request.committed;
      if (parent >= i || parent < (chain ? i - 1 : request.committed - 1))
        throw std::invalid_argument(
            "forward: a parent must come before its row, and committed rows form a chain");
      if (request.tokens[i] < 0 || request.tokens[i] >= num_tokens_)
        throw std::invalid_argument("forward: a token id is out of range");
      depth[i] = parent < 0 ? 1 : depth[parent] + 1;
      deepest = std::max(deepest, depth[i]);
    }
    if (request.sequence->length() + deepest > context_)
      throw std::length_error("forward: the rows do not fit into the context");
    for (const Request& other : requests)
      if (&other != &request && other.sequence == request.sequence)
        throw std::invalid_argument("forward: a sequence appears twice");
  }
}

void Plan::forward(std::vector<Request>& requests, const std::vector<int>& taps) {
  if (logits_ == nullptr) throw std::logic_error("forward: the plan has no logits");
  check(requests);
  Pass pass{requests, 0, {}, {}, std::vector<bool>(taps_.size()), 0, 1};
  for (const int tap : taps) pass.taps.at(tap) = true;
  if (!requests.empty()) pass.given_width = requests.front().given_width;
  std::fill(out_index_.begin(), out_index_.end(), -1);
  int positions = 0;
  for (Request& request : requests) {
    request.first_row = pass.rows;
    request.chosen.assign(request.num, -1);
    const auto& places = request.sequence->prepare(request.parents, request.num, request.committed);
    for (int i = 0; i < request.num; ++i) {
      pass.tokens.push_back(request.tokens[i]);
      positions = std::max(positions, places[i].position + 1);
      if (request.chooser == nullptr || i < request.committed - 1) continue;
      out_index_[pass.rows + i] = static_cast<int>(pass.out_rows.size());
      pass.out_rows.push_back(pass.rows + i);
    }
    pass.rows += request.num;
  }
  extend_rope(positions);
  for (auto& buffer : buffers_) {
    buffer->quant.rows = rows_of(*buffer, pass);
    buffer->quant.most = kernels_->most_rows;
  }
  pass.segments = segments_ = (positions + kSegmentPages * kPage - 1) / (kSegmentPages * kPage);
  const std::size_t partials = static_cast<std::size_t>(pass.rows) * heads_ * segments_;
  if (partials_.size() < partials) partials_.resize(partials);
  if (segments_ > 1 && partial_out_.size() < partials * shape_.head_dim)
    partial_out_.resize(partials * shape_.head_dim);
  for (const int tap : taps) taps_[tap].resize(static_cast<std::size_t>(pass.rows) * tap_width_);
  using clock = std::chrono::steady_clock;
  pool_->run([&](int worker) {
    Counter *counters = counters_.data(), *others = counters + pool_->size();
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if (!operations_[i].due(pass)) continue;
      const auto start = profiling_ && worker == 0 ? clock::now() : clock::time_point();
      operations_[i].work(pass, worker, counters);
      pool_->barrier();
      counters[worker].next.store(0, std::memory_order_relaxed);  // ready again after the next barrier
      std::swap(counters, others);
      if (profiling_ && worker == 0)
        profile_[operations_[i].label] += std::chrono::duration<double>(clock::now() - start).count();
    }
  });
  const auto start = clock::now();

  for (Request& request : requests) {
    request.sequence->commit();
    if (request.chooser != nullptr) choose(request);
  }
  if (profiling_) profile_["choose"] += std::chrono::duration<double>(clock::now() - start).count();
}

void Plan::set_profiling(bool on) {
  profiling_ = on;
  profile_.clear();
}

// Down the chosen path: the row's token, then the child that holds it, and so on.
void Plan::choose(Request& request) {
  int row = request.committed - 1;
  while (true) {
    const int token = request.chooser->choose(logits_of(request.first_row + row), logits_width());
    request.chosen[row] = token;
    int child = row + 1;
    const auto parent = [&](int i) { return request.parents == nullptr ? i - 1 : request.parents[i]; };
    while (child < request.num && (parent(child) != row || request.tokens[child] != token)) ++child;
    if (child == request.num) return;
    request.chooser->push(token);
    row = child;
  }
}

const float* Plan::logits_of(int row) const {
  const int index = out_index_.at(row);
  return index < 0 ? nullptr : logits_->row(index);
}

int Plan::logits_width() const { return logits_->width; }

}  // namespace ga
