// Attention as an operation of the plan: per sequence and key-value head, rotate, store, attend.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "plan.hpp"
#include "rope.hpp"

namespace ga {
namespace {
constexpr int kMaxGroup = 64;  // query heads that share a key-value head
}

void Plan::extend_rope(int positions) {
  const std::size_t half = inverse_frequencies_.size();
  if (half == 0 || cos_.size() >= positions * half) return;
  const int target = std::min(context_, (positions + 255) / 256 * 256);
  for (int p = static_cast<int>(cos_.size() / half); p < target; ++p) {
    for (double frequency : inverse_frequencies_) {
      const SinCos angle = sin_cos(p * frequency);
      cos_.push_back(static_cast<float>(angle.cos));
      sin_.push_back(static_cast<float>(angle.sin));
    }
  }
}

void Plan::attention(int layer, int q_id, int k_id, int v_id, int dst_id, int heads,
                     std::vector<double> inverse_frequencies, float scale) {
  Buffer &q = *buffers_.at(q_id), &k = *buffers_.at(k_id), &v = *buffers_.at(v_id), &dst = *buffers_.at(dst_id);
  if (heads % shape_.kv_heads != 0 || heads > kMaxGroup * shape_.kv_heads || q.width != heads * shape_.head_dim || dst.width != q.width ||
      k.width != shape_.kv_heads * shape_.head_dim || v.width != k.width)
    throw std::invalid_argument("attention: shapes do not fit");
  if (!inverse_frequencies_.empty() && inverse_frequencies_ != inverse_frequencies)
    throw std::invalid_argument("attention: one set of rotation frequencies per plan");
  inverse_frequencies_ = std::move(inverse_frequencies);
  const bool quantise = dst.quant.q != nullptr, in_place = shape_.head_dim * heads / shape_.kv_heads % kBlock == 0;
  add("attention", [=, this, &q, &k, &v, &dst](Pass& pass, int worker, std::atomic<int>& next) {
    Claims claims(next, static_cast<int>(pass.requests.size()) * shape_.kv_heads, 1);
    const int columns = shape_.head_dim * heads / shape_.kv_heads;  // that one key-value head makes
    for (int item, end; claims.take(item, end);) {
      Request& request = pass.requests[item / shape_.kv_heads];
      const int head = item % shape_.kv_heads;
      attend(request, layer, head, worker, q, k, v, dst, heads, scale);
      if (!quantise || !in_place) continue;
      for (int r = request.first_row; r < request.first_row + request.num; ++r)
        kernels_->quantise(dst.row(r) + head * columns, columns, dst.quant.row(r, head * columns));
    }
  });
  if (!quantise || in_place) return;
  add("attention", [this, &dst](Pass& pass, int, std::atomic<int>& next) {
    Claims claims(next, pass.rows, 1);
    for (int r, end; claims.take(r, end);) kernels_->quantise(dst.row(r), dst.stride, dst.quant.row(r));
  });
}

void Plan::attend(Request& request, int layer, int head, int worker, Buffer& q, Buffer& k, Buffer& v,
                  Buffer& dst, int heads, float scale) {
  const int dim = shape_.head_dim, group = heads / shape_.kv_heads;
  const int half = static_cast<int>(inverse_frequencies_.size());
  Sequence& sequence = *request.sequence;
  const auto& places = sequence.rows();
  Scratch& scratch = scratch_[worker];
  scratch.queries.clear();
  for (int i = 0; i < request.num; ++i) {
    const int row = request.first_row + i, position = places[i].position;
    const float *cos = cos_.data() + static_cast<std::size_t>(position) * half,
                *sin = sin_.data() + static_cast<std::size_t>(position) * half;
    float* key = k.row(row) + head * dim;
    kernels_->rope(key, cos, sin, half, dim, 1.0f);
    sequence.store(layer, head, places[i], key, v.row(row) + head * dim);
    for (int h = head * group; h < (head + 1) * group; ++h) {
      kernels_->rope(q.row(row) + h * dim, cos, sin, half, dim, scale);
      scratch.queries.push_back({q.row(row) + h * dim, dst.row(row) + h * dim, 0.0f, 0.0f, position});
    }
  }

  int last = 0;
  for (const RowPlace& place : places) last = std::max(last, place.position);
  float *block_keys = scratch.block.data(), *block_values = block_keys + static_cast<std::size_t>(kPage) * dim;
  for (int page = 0; page <= last / kPage; ++page) {
    const int begin = page * kPage;
    const float *keys = sequence.keys(layer, head, page), *values = sequence.values(layer, head, page);
    scratch.order.clear();
    for (int i = 0; i < request.num; ++i) {
      const RowPlace& place = places[i];
      if (place.position < begin) continue;
      Query* queries = scratch.queries.data() + i * group;
      if (place.fork >= std::min(begin + kPage, place.position + 1)) {  // this row sees the page as it is
        for (int h = 0; h < group; ++h) scratch.order.push_back(queries + h);
        continue;
      }
      // Some of the row's ancestors lie in scratch: lay them over a copy of the page.
      std::memcpy(block_keys, keys, shape_.head_floats() * sizeof(float));
      for (int a = i; a >= 0 && places[a].slot >= 0 && places[a].position >= begin; a = places[a].parent) {
        const int column = places[a].position - begin;
        if (column >= kPage) continue;
        const float* key = sequence.scratch_key(layer, head, places[a].slot);
        for (int d = 0; d < dim; ++d) block_keys[d * kPage + column] = key[d];
        std::memcpy(block_values + column * dim, sequence.scratch_value(layer, head, places[a].slot),
                    dim * sizeof(float));
      }
      Query* own[kMaxGroup];
      for (int h = 0; h < group; ++h) own[h] = queries + h;
      kernels_->attend(own, group, block_keys, block_values, begin, dim);
    }
    if (!scratch.order.empty())
      kernels_->attend(scratch.order.data(), static_cast<int>(scratch.order.size()), keys, values, begin, dim);
  }
  for (const Query& query : scratch.queries) {
    const float inverse = 1.0f / query.sum;
    for (int d = 0; d < dim; ++d) query.out[d] *= inverse;
  }
}

}  // namespace ga
