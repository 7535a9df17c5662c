#include "plan/buffer.hpp"

#include <new>

namespace ga {

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

}  // namespace ga
