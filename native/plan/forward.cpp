// One pass: checks, places in the cache, the operations, choosing.
#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "plan/plan.hpp"

namespace ga {

void Plan::check(const std::vector<RowGroup>& groups) const {
  int rows = 0;
  for (const RowGroup& group : groups) {
    rows += group.num;
    if (group.given_width != groups.front().given_width ||
        (group.given_width == 0) != given_widths_.empty() ||
        (group.given_width != 0 &&
         std::find(given_widths_.begin(), given_widths_.end(), group.given_width) == given_widths_.end()))
      throw std::invalid_argument("forward: the vectors that come with the rows have a wrong width");
    if (group.num < 1 || rows > max_rows_) throw std::invalid_argument("forward: no rows, or too many");
    if (group.committed < 1 || group.committed > group.num)
      throw std::invalid_argument("forward: committed rows out of range");
    std::vector<int> depth(group.num);
    int deepest = 0;
    for (int i = 0; i < group.num; ++i) {
      const int parent = group.parents == nullptr ? i - 1 : group.parents[i];
      const bool chain = i < group.committed;
      if (parent >= i || parent < (chain ? i - 1 : group.committed - 1))
        throw std::invalid_argument(
            "forward: a parent must come before its row, and committed rows form a chain");
      if (group.tokens[i] < 0 || group.tokens[i] >= num_tokens_)
        throw std::invalid_argument("forward: a token id is out of range");
      depth[i] = parent < 0 ? 1 : depth[parent] + 1;
      deepest = std::max(deepest, depth[i]);
    }
    if (group.sequence->length() + deepest > context_)
      throw std::length_error("forward: the rows do not fit into the context");
    for (const RowGroup& other : groups)
      if (&other != &group && other.sequence == group.sequence)
        throw std::invalid_argument("forward: a sequence appears twice");
  }
}

void Plan::forward(std::vector<RowGroup>& groups, const std::vector<int>& taps) {
  if (logits_ == nullptr) throw std::logic_error("forward: the plan has no logits");
  check(groups);
  Pass pass{groups, 0, {}, {}, std::vector<bool>(taps_.size()), 0, 1};
  for (const int tap : taps) pass.taps.at(tap) = true;
  if (!groups.empty()) pass.given_width = groups.front().given_width;
  std::fill(out_index_.begin(), out_index_.end(), -1);
  int positions = 0;
  for (RowGroup& group : groups) {
    group.first_row = pass.rows;
    group.chosen.assign(group.num, -1);
    const auto& places = group.sequence->prepare(group.parents, group.num, group.committed);
    for (int i = 0; i < group.num; ++i) {
      pass.tokens.push_back(group.tokens[i]);
      positions = std::max(positions, places[i].position + 1);
      if ((group.chooser == nullptr && !group.all_logits) || i < group.committed - 1) continue;
      out_index_[pass.rows + i] = static_cast<int>(pass.out_rows.size());
      pass.out_rows.push_back(pass.rows + i);
    }
    pass.rows += group.num;
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
  pool_->run_claimed([&](int worker) {
    Counter *counters = counters_.data(), *others = counters + pool_->size();
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if (!operations_[i].due(pass)) continue;
      const auto start = profiling_ && worker == 0 ? clock::now() : clock::time_point();
      operations_[i].work(pass, worker, counters);
      if (!pool_->barrier(worker)) return;
      counters[worker].next.store(0, std::memory_order_relaxed);  // ready again after the next barrier
      for (int other = pool_->active(); worker == 0 && other < pool_->size(); ++other)
        counters[other].next.store(0, std::memory_order_relaxed);
      std::swap(counters, others);
      if (profiling_ && worker == 0)
        profile_[operations_[i].label] += std::chrono::duration<double>(clock::now() - start).count();
    }
  });
  const auto start = clock::now();

  for (RowGroup& group : groups) {
    group.sequence->commit();
    if (group.chooser != nullptr) choose(group);
  }
  if (profiling_) profile_["choose"] += std::chrono::duration<double>(clock::now() - start).count();
}

void Plan::set_profiling(bool on) {
  profiling_ = on;
  profile_.clear();
}

// Down the chosen path: the row's token, then the child that holds it, and so on.
void Plan::choose(RowGroup& group) {
  int row = group.committed - 1;
  while (true) {
    const std::ptrdiff_t line = row - (group.committed - 1);
    const std::uint32_t* mask = group.masks == nullptr ? nullptr : group.masks + line * group.mask_words;
    const int token =
        group.chooser->choose(*kernels_, logits_of(group.first_row + row), logits_width(), mask);
    group.chosen[row] = token;
    int child = row + 1;
    const auto parent = [&](int i) { return group.parents == nullptr ? i - 1 : group.parents[i]; };
    while (child < group.num && (parent(child) != row || group.tokens[child] != token)) ++child;
    if (child == group.num) return;
    group.chooser->push(token);
    row = child;
  }
}

const float* Plan::logits_of(int row) const {
  const int index = out_index_.at(row);
  return index < 0 ? nullptr : logits_->row(index);
}

int Plan::logits_width() const { return logits_->width; }

}  // namespace ga
