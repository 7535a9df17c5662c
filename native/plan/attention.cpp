// Attention as an operation of the plan: per sequence and key-value head, rotate, store, attend.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "plan/plan.hpp"
#include "plan/rope.hpp"

namespace ga {

void Plan::extend_rope(int positions) {
  const int target = std::min(context_, (positions + 255) / 256 * 256);
  for (const auto& rotation : rotations_) {
    const std::size_t half = rotation->frequencies.size();
    if (half == 0 || rotation->cos.size() >= positions * half) continue;
    for (int p = static_cast<int>(rotation->cos.size() / half); p < target; ++p) {
      for (double frequency : rotation->frequencies) {
        const SinCos angle = sin_cos(p * frequency);
        rotation->cos.push_back(static_cast<float>(angle.cos));
        rotation->sin.push_back(static_cast<float>(angle.sin));
      }
    }
  }
}

void Plan::attention(int layer, int q_id, int k_id, int v_id, int dst_id, int heads,
                     std::vector<double> inverse_frequencies, float scale, int window, float cap) {
  Buffer &q = *buffers_.at(q_id), &k = *buffers_.at(k_id), &v = *buffers_.at(v_id),
         &dst = *buffers_.at(dst_id);
  if (heads % shape_.kv_heads != 0 || q.width != heads * shape_.head_dim || dst.width != q.width ||
      k.width != shape_.kv_heads * shape_.head_dim || v.width != k.width)
    throw std::invalid_argument("attention: shapes do not fit");
  if (inverse_frequencies.size() * 2 > static_cast<std::size_t>(shape_.head_dim) || window < 0)
    throw std::invalid_argument("attention: more rotated elements than a head has, or a negative window");
  auto rotation = std::find_if(rotations_.begin(), rotations_.end(),
                               [&](const auto& each) { return each->frequencies == inverse_frequencies; });
  if (rotation == rotations_.end())
    rotation = rotations_.insert(
        rotation, std::make_unique<Rotation>(Rotation{std::move(inverse_frequencies), {}, {}}));
  heads_ = std::max(heads_, heads);
  const Attention job{layer, heads, scale, window, cap, rotation->get(), &q, &k, &v, &dst};
  const int kv_heads = shape_.kv_heads;
  add("attention", [=, this](Pass& pass, int worker, Counter* counters) {
    OwnRange claims(static_cast<int>(pass.groups.size()) * kv_heads, pool_->size(), counters, worker);
    for (int item; claims.take(item);) {
      RowGroup& group = pass.groups[item / kv_heads];
      const int head = item % kv_heads;
      rotate(job, group, head);
      if (pass.segments > 1) continue;
      attend(job, group, head, 0, worker);
      for (int r = group.first_row; r < group.first_row + group.num; ++r) finish(job, r, head, 1);
    }
  });
  add(
      "attention",
      [=, this](Pass& pass, int worker, Counter* counters) {
        const int per_group = kv_heads * pass.segments;
        OwnRange claims(static_cast<int>(pass.groups.size()) * per_group, pool_->size(), counters, worker);
        for (int item; claims.take(item);) {
          const int head = item % per_group / pass.segments;
          attend(job, pass.groups[item / per_group], head, item % pass.segments, worker);
        }
      },
      -1, true);
  add(
      "attention",
      [=, this](Pass& pass, int, Counter* counters) {
        Claims claims(counters->next, pass.rows * kv_heads);
        for (int item; claims.take(item);) finish(job, item / kv_heads, item % kv_heads, pass.segments);
      },
      -1, true);
  if (dst.quant.q == nullptr || group_columns(job) % kBlock == 0) return;
  add("attention", [this, &dst](Pass& pass, int, Counter* counters) {
    Claims claims(counters->next, pass.rows);
    for (int r; claims.take(r);) kernels_->quantise(dst.row(r), dst.stride, dst.quant.row(r));
  });
}

// Rotates keys and queries of one key-value head, and stores keys and values.
void Plan::rotate(const Attention& job, RowGroup& group, int head) {
  const int dim = shape_.head_dim, queries = job.heads / shape_.kv_heads;
  const std::size_t half = job.rotation->frequencies.size();
  const auto& places = group.sequence->rows();
  for (int i = 0; i < group.num; ++i) {
    const int row = group.first_row + i;
    const float* cos = job.rotation->cos.data() + places[i].position * half;
    const float* sin = job.rotation->sin.data() + places[i].position * half;
    float* key = job.k->row(row) + head * dim;
    kernels_->rope(key, cos, sin, static_cast<int>(half), dim, 1.0f);
    group.sequence->store(job.layer, head, places[i], key, job.v->row(row) + head * dim);
    for (int h = head * queries; h < (head + 1) * queries; ++h)
      kernels_->rope(job.q->row(row) + h * dim, cos, sin, static_cast<int>(half), dim, job.scale);
  }
}

Query& Plan::partial(const Attention& job, int row, int head, int segment, int segments) {
  return partials_[(static_cast<std::size_t>(row) * job.heads + head) * segments + segment];
}

// All queries of one key-value head against one segment; each block is read once for all of them.
void Plan::attend(const Attention& job, RowGroup& group, int head, int segment, int worker) {
  const int dim = shape_.head_dim, queries = job.heads / shape_.kv_heads;
  Sequence& sequence = *group.sequence;
  const auto& places = sequence.rows();
  Scratch& scratch = scratch_[worker];
  int last = 0, first_seen = context_;
  for (int i = 0; i < group.num; ++i) {
    last = std::max(last, places[i].position);
    first_seen = std::min(first_seen, job.first_seen(places[i].position));
    const int row = group.first_row + i;
    for (int h = head * queries; h < (head + 1) * queries; ++h) {
      Query& query = partial(job, row, h, segment, segments_);
      float* out = segments_ == 1 ? job.dst->row(row) + h * dim
                                  : partial_out_.data() + (&query - partials_.data()) * dim;
      const int position = places[i].position;
      query = {job.q->row(row) + h * dim, out, 0.0f, 0.0f, position, job.first_seen(position), job.cap};
    }
  }
  const int last_page = std::min(last / kPage, (segment + 1) * kSegmentPages - 1);
  for (int page = std::max(segment * kSegmentPages, first_seen / kPage); page <= last_page; ++page) {
    const int begin = page * kPage;
    const std::byte* block = sequence.block(job.layer, head, page);
    const std::byte* next = page < last / kPage ? sequence.block(job.layer, head, page + 1) : nullptr;
    scratch.order.clear();
    int same = 0;  // columns of the copy in scratch that are the page's; 0 = there is no copy yet
    for (int i = 0; i < group.num; ++i) {
      const RowPlace& place = places[i];
      if (place.position < begin || job.first_seen(place.position) >= begin + kPage) continue;
      const std::size_t first = scratch.order.size();
      for (int h = head * queries; h < (head + 1) * queries; ++h)
        scratch.order.push_back(&partial(job, group.first_row + i, h, segment, segments_));
      if (place.fork >= std::min(begin + kPage, place.position + 1))
        continue;  // this row sees the page as it is
      // Some of the row's ancestors lie in scratch: lay them over a copy of the page, which rows share. Those
      // before have changed its columns from `same` on; this row's own begin at `fork`.
      const int fork = std::max(place.fork - begin, 0);
      if (same == 0) std::memcpy(scratch.block.data(), block, shape_.head_bytes());
      for (int column = same; same > 0 && column < fork; ++column)
        sequence.restore(block, scratch.block.data(), column);
      same = fork;
      for (int a = i; a >= 0 && places[a].slot >= 0 && places[a].position >= begin; a = places[a].parent)
        if (places[a].position < begin + kPage)
          sequence.lay_over(job.layer, head, places[a].slot, scratch.block.data(),
                            places[a].position - begin);
      attend_block(scratch.order.data() + first, queries, scratch.block.data(), begin, nullptr);
      scratch.order.resize(first);
    }
    attend_block(scratch.order.data(), static_cast<int>(scratch.order.size()), block, begin, next);
  }
}

void Plan::attend_block(Query* const* queries, int num, const std::byte* block, int begin,
                        const std::byte* next) const {
  const std::size_t values = static_cast<std::size_t>(kPage) * shape_.head_dim;
  if (shape_.half) {
    const auto* keys = reinterpret_cast<const std::uint16_t*>(block);
    kernels_->attend_half(queries, num, keys, keys + values, begin, shape_.head_dim, next);
  } else {
    const auto* keys = reinterpret_cast<const float*>(block);
    kernels_->attend(queries, num, keys, keys + values, begin, shape_.head_dim, next);
  }
}

// Joins the segments of a row in the order of positions, divides by the sum, quantises.
void Plan::finish(const Attention& job, int row, int head, int segments) {
  const int dim = shape_.head_dim, queries = job.heads / shape_.kv_heads;
  for (int h = head * queries; h < (head + 1) * queries; ++h) {
    float* out = job.dst->row(row) + h * dim;
    Query total = partial(job, row, h, 0, segments);
    if (segments > 1) {
      total = {nullptr, out, 0.0f, 0.0f, 0};
      for (int s = 0; s < segments; ++s) {
        const Query& part = partial(job, row, h, s, segments);
        if (part.sum != 0.0f) kernels_->combine(total, part, dim);
      }
    }
    const float inverse = 1.0f / total.sum;
    for (int d = 0; d < dim; ++d) out[d] *= inverse;
  }
  const int columns = group_columns(job), first = head * columns;
  if (job.dst->quant.q != nullptr && columns % kBlock == 0)
    kernels_->quantise(job.dst->row(row) + first, columns, job.dst->quant.row(row, first));
}

}  // namespace ga
