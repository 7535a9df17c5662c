// Keys and values of running sequences: reference-counted pages of 64 positions, copied on write.
#pragma once
#include <memory>
#include <vector>

#include "common.hpp"

namespace ga {

struct CacheShape {
  int layers = 0, kv_heads = 0, head_dim = 0;
  std::size_t head_floats() const { return 2 * static_cast<std::size_t>(kPage) * head_dim; }
  std::size_t page_floats() const { return head_floats() * kv_heads * layers; }
  std::size_t row_floats() const { return 2 * static_cast<std::size_t>(head_dim) * kv_heads * layers; }
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
  std::size_t num_bytes() const { return pages_.size() * shape_.page_floats() * sizeof(float); }

  // Makes room for rows with these parents. The first `committed` are a chain and stay; one chain of rows
  // lies in place, other branches in scratch.
  const std::vector<RowPlace>& prepare(const int* parents, int num, int committed);
  // After the pass: the committed rows count from now on.
  void commit();

  void keep(const int* path, int num);  // tentative rows, each a child of the one before; others are dropped
  void rollback(int length);
  Sequence fork() const;

  // keys: [head_dim][64], values: [64][head_dim], of the page that holds positions 64 * page ...
  float* keys(int layer, int head, int page) const {
    return pages_[page].get() + (static_cast<std::size_t>(layer) * shape_.kv_heads + head) * shape_.head_floats();
  }
  float* values(int layer, int head, int page) const {
    return keys(layer, head, page) + static_cast<std::size_t>(kPage) * shape_.head_dim;
  }
  // [head_dim] each, of a row in scratch.
  float* scratch_key(int layer, int head, int slot) {
    return scratch_.data() + slot * shape_.row_floats() +
           2 * (static_cast<std::size_t>(layer) * shape_.kv_heads + head) * shape_.head_dim;
  }
  float* scratch_value(int layer, int head, int slot) {
    return scratch_key(layer, head, slot) + shape_.head_dim;
  }
  void store(int layer, int head, const RowPlace& row, const float* key, const float* value);

  const std::vector<RowPlace>& rows() const { return rows_; }

 private:
  void own_page(int page);

  CacheShape shape_;
  int length_ = 0;
  int committed_ = 0;                // rows of the last pass that are committed
  std::vector<std::shared_ptr<float[]>> pages_;
  std::vector<RowPlace> rows_;       // of the last pass
  std::vector<float> scratch_;       // [slot][layer][head][key, value][head_dim]
};

}  // namespace ga
