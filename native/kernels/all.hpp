// The kernels, written once over the vectors of an instruction set. Included by isa/<name>.cpp, after the
// vocabulary, inside the namespace of the instruction set; no std templates and no shared inline functions in
// here, so that the linker can never merge code of one instruction set into another.
//
// The order of every accumulation is fixed here: an output element is summed block by block along k, each
// block as one fused multiply-add chain (f32 route) or one exact integer (int8 route). Nothing depends on the
// number of rows, on how rows are grouped or on which tiles a worker gets.

#include "kernels/math.hpp"
#include "kernels/rowwise.hpp"
#include "kernels/products.hpp"
#include "kernels/attention.hpp"
#include "kernels/choose_scan.hpp"
#include "kernels/peaks.hpp"

template <Format F>
static constexpr MatmulFunction* int8_function() {
  if constexpr (is_quantised(F))
    return matmul_int8<F>;
  else
    return nullptr;
}

static const Kernels& table(const char* name) {
#define GA_INT8(name, ...) int8_function<Format::name>(),
#define GA_FLOAT(name, ...) matmul_float<Format::name>,
  static const Kernels kernels = {
      .name = name,
      .most_rows = kMostRows,
      .matmul_int8 = {GA_FORMATS(GA_INT8)},
      .matmul_float = {GA_FORMATS(GA_FLOAT)},
      .rms_scale = rms_scale,
      .scale_mul = scale_mul,
      .quantise = quantise,
      .silu_mul = silu_mul,
      .gelu_mul = gelu_mul,
      .cap = cap,
      .rope = rope,
      .attend = attend,
      .attend_half = attend_half,
      .combine = combine,
      .block_maxima = block_maxima,
      .block_maxima_double = block_maxima_double,
      .weigh = weigh,
      .sum_exp = sum_exp,
      .sum_exp_double = sum_exp_double,
      .peak_int8 = peak_int8,
      .peak_float = peak_float,
  };
#undef GA_INT8
#undef GA_FLOAT
  return kernels;
}
