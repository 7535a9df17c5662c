#include "cache/sequence.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include "formats/halves.hpp"

namespace ga {
namespace {

// Zeroed, so that lanes beyond the last position hold numbers (they are computed, then masked).
std::shared_ptr<std::byte[]> new_page(std::size_t bytes) {
  auto* data = static_cast<std::byte*>(std::calloc(bytes, 1));
  if (data == nullptr) throw std::bad_alloc();
  return {data, [](std::byte* p) { std::free(p); }};
}

// NaN, not infinity, where the number is too large for a half: an infinite key could hide its token in
// silence.
std::uint16_t to_cache(float value) {
  const std::uint16_t half = float_to_half(value);
  return (half & 0x7fffu) == 0x7c00u ? 0x7e00u : half;
}

// Keys lie across (one column of [dim][64]), values along (one row of [64][dim]).
template <class To, class From>
void put_column(std::byte* block, int column, int dim, const From* key, const From* value) {
  To *keys = reinterpret_cast<To*>(block),
     *values = keys + static_cast<std::size_t>(kPage) * dim + column * dim;
  for (int d = 0; d < dim; ++d) {
    if constexpr (sizeof(To) == sizeof(From)) {
      keys[d * kPage + column] = key[d];
      values[d] = value[d];
    } else {
      keys[d * kPage + column] = to_cache(key[d]);
      values[d] = to_cache(value[d]);
    }
  }
}

}  // namespace

void Sequence::own_page(int page) {
  const std::size_t bytes = shape_.page_bytes();
  if (page == static_cast<int>(pages_.size())) {
    pages_.push_back(new_page(bytes));
  } else if (pages_[page].use_count() > 1) {
    auto copy = new_page(bytes);
    std::memcpy(copy.get(), pages_[page].get(), bytes);
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
  if (scratch_.size() < slots * shape_.row_bytes()) scratch_.resize(slots * shape_.row_bytes());
  return rows_;
}

void Sequence::commit() { length_ += committed_; }

void Sequence::store(int layer, int head, const RowPlace& row, const float* key, const float* value) {
  const int dim = shape_.head_dim;
  if (row.slot < 0) {
    std::byte* block = this->block(layer, head, row.position / kPage);
    if (shape_.half)
      put_column<std::uint16_t>(block, row.position % kPage, dim, key, value);
    else
      put_column<float>(block, row.position % kPage, dim, key, value);
    return;
  }
  std::byte* to = scratch(layer, head, row.slot);
  if (shape_.half) {
    auto* halves = reinterpret_cast<std::uint16_t*>(to);
    for (int d = 0; d < dim; ++d) {
      halves[d] = to_cache(key[d]);
      halves[dim + d] = to_cache(value[d]);
    }
  } else {
    std::memcpy(to, key, shape_.vector_bytes());
    std::memcpy(to + shape_.vector_bytes(), value, shape_.vector_bytes());
  }
}

void Sequence::lay_over(int layer, int head, int slot, std::byte* block, int column) {
  const std::byte *key = scratch(layer, head, slot), *value = key + shape_.vector_bytes();
  const auto lay = [&]<class T>(const T*) {
    put_column<T>(block, column, shape_.head_dim, reinterpret_cast<const T*>(key),
                  reinterpret_cast<const T*>(value));
  };
  if (shape_.half)
    lay(static_cast<const std::uint16_t*>(nullptr));
  else
    lay(static_cast<const float*>(nullptr));
}

void Sequence::restore(const std::byte* from, std::byte* to, int column) const {
  const auto copy = [&]<class T>(const T*) {
    const int dim = shape_.head_dim;
    const auto* source = reinterpret_cast<const T*>(from);
    auto* target = reinterpret_cast<T*>(to);
    for (int d = 0; d < dim; ++d) target[d * kPage + column] = source[d * kPage + column];
    std::copy_n(source + (kPage + column) * dim, dim, target + (kPage + column) * dim);
  };
  if (shape_.half)
    copy(static_cast<const std::uint16_t*>(nullptr));
  else
    copy(static_cast<const float*>(nullptr));
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
    for (int layer = 0; layer < shape_.layers; ++layer)
      for (int head = 0; head < shape_.kv_heads; ++head)
        lay_over(layer, head, row.slot, block(layer, head, row.position / kPage), row.position % kPage);
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
