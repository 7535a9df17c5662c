// The description of a pass: buffers, and all operations but products and attention.
#include <algorithm>
#include <stdexcept>

#include "plan/plan.hpp"

namespace ga {

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

int Plan::columns_each(int width, int multiple) const {
  const int workers = pool_->active();
  return round_up((width + workers - 1) / workers, multiple);
}

int Plan::rows_of(const Buffer& buffer, const Pass& pass) const {
  return buffer.compact ? static_cast<int>(pass.out_rows.size()) : pass.rows;
}

void Plan::embed(std::shared_ptr<Matrix> table, int dst_id, float scale) {
  Buffer& dst = *buffers_.at(dst_id);
  num_tokens_ = table->n;
  add("embed", [this, table, &dst, scale](Pass& pass, int, Counter* counters) {
    Claims claims(counters->next, pass.rows);
    for (int r; claims.take(r);) {
      const int token = pass.tokens[r];
      const std::uint8_t* tile = table->tile(token / kLanes);
      float* out = dst.row(r);
      for (int b = 0; b < table->blocks(); ++b)
        unpack_row(table->format, tile, b, token % kLanes, out + b * kBlock, 1);
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
  add("norm", [this, &src, &dst, weight, eps, column](Pass& pass, int worker, Counter*) {
    const bool gather = dst.compact && !src.compact;
    const int rows = rows_of(dst, pass), stride = static_cast<int>(src.stride);
    const int columns = columns_each(stride, 2 * kBlock);
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
  const int stride = static_cast<int>(buffer.stride);
  add("head", [this, &buffer, divisor, most, stride](Pass& pass, int worker, Counter*) {
    const int columns = columns_each(stride, kBlock);
    const int first = worker * columns, n = std::min(columns, stride - first), rows = rows_of(buffer, pass);
    for (int r = 0; r < rows && n > 0; ++r) kernels_->cap(buffer.row(r) + first, divisor, most, n);
  });
}

void Plan::given(int dst_id) {
  Buffer& dst = *buffers_.at(dst_id);
  if (dst.width != given_width_) throw std::invalid_argument("given: not the width that is described");
  given_widths_.push_back(dst.width);
  add("given", [this, &dst](Pass& pass, int, Counter* counters) {
    Claims claims(counters->next, static_cast<int>(pass.groups.size()));
    for (int i; claims.take(i);) {
      const RowGroup& group = pass.groups[i];
      for (int r = 0; r < group.num; ++r) {
        float* out = dst.row(group.first_row + r);
        std::copy_n(group.given + static_cast<std::size_t>(r) * dst.width, dst.width, out);
        if (dst.quant.q != nullptr) kernels_->quantise(out, dst.stride, dst.quant.row(group.first_row + r));
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

}  // namespace ga
