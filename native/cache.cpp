#include "cache.hpp"

#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

namespace ga {
namespace {

// Zeroed, so that lanes beyond the last position hold numbers (they are computed, then masked).
std::shared_ptr<float[]> new_page(std::size_t floats) {
  auto* data = static_cast<float*>(std::calloc(floats, sizeof(float)));
  if (data == nullptr) throw std::bad_alloc();
  return {data, [](float* p) { std::free(p); }};
}

}  // namespace

void Sequence::own_page(int page) {
  const std::size_t floats = shape_.page_floats();
  if (page == static_cast<int>(pages_.size())) {
    pages_.push_back(new_page(floats));
  } else if (pages_[page].use_count() > 1) {
    auto copy = new_page(floats);
    std::memcpy(copy.get(), pages_[page].get(), floats * sizeof(float));
    pages_[page] = std::move(copy);
  }
}

const std::vector<RowPlace>& Sequence::prepare(const int* parents, int num, int committed) {
  rows_.clear();
  committed_ = committed;
  int tip = -1;  // last row that lies in place
  int slots = 0, last = length_ - 1;
  for (int i = 0; i < num; ++i) {
    const int parent = parents == nullptr ? i - 1 : parents[i];
    RowPlace row{length_, parent, -1, 0};
    if (parent >= 0) row.position = rows_[parent].position + 1;
    if (parent == tip) {
      tip = i;
      row.fork = row.position + 1;
    } else {
      row.slot = slots++;
      const bool in_place = parent < 0 || rows_[parent].slot < 0;
      row.fork = in_place ? row.position : rows_[parent].fork;
    }
    if (row.position > last) last = row.position;
    rows_.push_back(row);
  }
  if (num > 0)
    for (int page = length_ / kPage; page <= last / kPage; ++page) own_page(page);
  if (scratch_.size() < slots * shape_.row_floats()) scratch_.resize(slots * shape_.row_floats());
  return rows_;
}

void Sequence::commit() { length_ += committed_; }

void Sequence::store(int layer, int head, const RowPlace& row, const float* key, const float* value) {
  const std::size_t bytes = shape_.head_dim * sizeof(float);
  if (row.slot >= 0) {
    std::memcpy(scratch_key(layer, head, row.slot), key, bytes);
    std::memcpy(scratch_value(layer, head, row.slot), value, bytes);
    return;
  }
  const int column = row.position % kPage;
  float* keys = this->keys(layer, head, row.position / kPage);
  for (int d = 0; d < shape_.head_dim; ++d) keys[d * kPage + column] = key[d];
  std::memcpy(values(layer, head, row.position / kPage) + column * shape_.head_dim, value, bytes);
}

void Sequence::keep(const int* path, int num) {
  int parent = committed_ - 1;
  for (int i = 0; i < num; ++i) {
    const int r = path[i];
    if (r < committed_ || r >= static_cast<int>(rows_.size()) || rows_[r].parent != parent)
      throw std::invalid_argument("keep: not a path of tentative rows of the last pass");
    parent = r;
  }
  for (int i = 0; i < num; ++i) {
    const RowPlace& row = rows_[path[i]];
    if (row.slot < 0) continue;
    const RowPlace in_place{row.position, row.parent, -1, 0};
    for (int layer = 0; layer < shape_.layers; ++layer)
      for (int head = 0; head < shape_.kv_heads; ++head)
        store(layer, head, in_place, scratch_key(layer, head, row.slot), scratch_value(layer, head, row.slot));
  }
  length_ += num;
  rows_.clear();
  committed_ = 0;
}

void Sequence::rollback(int length) {
  if (length < 0 || length > length_) throw std::invalid_argument("rollback: beyond the sequence's length");
  length_ = length;
  rows_.clear();
  committed_ = 0;
  pages_.resize((length_ + kPage - 1) / kPage);
}

Sequence Sequence::fork() const {
  Sequence copy(shape_);
  copy.length_ = length_;
  copy.pages_.assign(pages_.begin(), pages_.begin() + (length_ + kPage - 1) / kPage);
  return copy;
}

}  // namespace ga
