// Keys and values of running sequences: reference-counted pages of 64 positions, copied on write.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "isa/kernels.hpp"

namespace ga {

struct CacheShape {
  int layers = 0, kv_heads = 0, head_dim = 0;
  bool half = false;  // elements are f16 instead of f32
  std::size_t vector_bytes() const { return static_cast<std::size_t>(head_dim) * (half ? 2 : 4); }
  std::size_t head_bytes() const { return 2 * kPage * vector_bytes(); }
  std::size_t page_bytes() const { return head_bytes() * kv_heads * layers; }
  std::size_t row_bytes() const { return 2 * vector_bytes() * kv_heads * layers; }
};

// Where a row of the running pass keeps its keys and values.
struct RowPlace {
  int position;
  int parent;  // row of the same pass, -1 = the last cached token
  int slot;    // scratch slot, or -1: the row lies in its page ("in place")
  int fork;    // first position that does not lie in place on this row's path; position + 1 where all do
};

class Sequence {
 public:
  explicit Sequence(CacheShape shape) : shape_(shape) {}

  int length() const { return length_; }
  const CacheShape& shape() const { return shape_; }
  std::size_t num_bytes() const { return pages_.size() * shape_.page_bytes(); }

  // Makes room for rows with these parents. The first `committed` are a chain and stay; one chain of rows
  // lies in place, other branches in scratch.
  const std::vector<RowPlace>& prepare(const int* parents, int num, int committed);
  // After the pass: the committed rows count from now on.
  void commit();

  void keep(const int* path, int num);  // tentative rows, each a child of the one before; others are dropped
  void rollback(int length);
  Sequence fork() const;

  // keys: [head_dim][64], then values: [64][head_dim], of the page that holds positions 64 * page ...
  std::byte* block(int layer, int head, int page) const {
    return pages_[page].get() +
           (static_cast<std::size_t>(layer) * shape_.kv_heads + head) * shape_.head_bytes();
  }
  // key [head_dim], then value [head_dim], of a row in scratch.
  std::byte* scratch(int layer, int head, int slot) {
    return scratch_.data() + slot * shape_.row_bytes() +
           2 * (static_cast<std::size_t>(layer) * shape_.kv_heads + head) * shape_.vector_bytes();
  }
  // Takes in the key and value of a row, f32[head_dim] each.
  void store(int layer, int head, const RowPlace& row, const float* key, const float* value);
  // Copies a row from scratch into column `column` of a block.
  void lay_over(int layer, int head, int slot, std::byte* block, int column);

  // Copies a column from one block to another.
  void restore(const std::byte* from, std::byte* to, int column) const;

  const std::vector<RowPlace>& rows() const { return rows_; }
  const std::vector<std::shared_ptr<std::byte[]>>& pages() const { return pages_; }
  void check_integrity() const;  // see integrity.hpp

 private:
  void own_page(int page);

  CacheShape shape_;
  int length_ = 0;
  int committed_ = 0;  // rows of the last pass that are committed
  std::vector<std::shared_ptr<std::byte[]>> pages_;
  std::vector<RowPlace> rows_;      // of the last pass
  std::vector<std::byte> scratch_;  // [slot][layer][head][key, value][head_dim]
};

}  // namespace ga
