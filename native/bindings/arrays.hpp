// Arrays that come from Python and go out to it.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace ga {

using Floats = nanobind::ndarray<const float, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
using FloatRows =
    nanobind::ndarray<const float, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;
using Ints =
    nanobind::ndarray<const std::int32_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
using Masks =
    nanobind::ndarray<const std::uint32_t, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;
using Bytes =
    nanobind::ndarray<const std::uint8_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

template <class T>
using Array = nanobind::ndarray<nanobind::numpy, T>;

template <class T>
Array<T> to_numpy(std::vector<T> values, std::initializer_list<std::size_t> shape) {
  auto* owned = new std::vector<T>(std::move(values));
  nanobind::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Array<T>(owned->data(), shape.size(), shape.begin(), owner);
}

}  // namespace ga
