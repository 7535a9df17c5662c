// guessahead._native.Plan: the operations of one pass.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>

#include "bindings/arrays.hpp"
#include "bindings/bind.hpp"
#include "plan/plan.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace ga;

namespace {

// One pass. Per request: (chosen int32[rows], {row: logits} or None, {tap: [rows, width]}).
nb::list forward(Plan& plan, const std::vector<nb::tuple>& tuples, const std::vector<int>& taps) {
  std::vector<RowGroup> groups(tuples.size());
  std::vector<int> want_logits(tuples.size());
  for (std::size_t i = 0; i < tuples.size(); ++i) {
    if (tuples[i].size() != 7) throw std::invalid_argument("forward: a request has seven parts");
    RowGroup& r = groups[i];
    r.sequence = nb::cast<Sequence*>(tuples[i][0]);
    const auto tokens = nb::cast<Ints>(tuples[i][1]);  // the tuple keeps the arrays alive
    r.tokens = tokens.data();
    r.num = static_cast<int>(tokens.size());
    if (!tuples[i][2].is_none()) {
      const auto parents = nb::cast<Ints>(tuples[i][2]);
      if (parents.size() != tokens.size()) throw std::invalid_argument("forward: one parent per token");
      r.parents = parents.data();
    }
    r.committed = nb::cast<int>(tuples[i][3]);
    r.chooser = tuples[i][4].is_none() ? nullptr : nb::cast<Chooser*>(tuples[i][4]);
    want_logits[i] = nb::cast<int>(tuples[i][5]);
    if (tuples[i][6].is_none()) continue;
    const auto given = nb::cast<FloatRows>(tuples[i][6]);
    if (given.shape(0) != tokens.size()) throw std::invalid_argument("forward: one vector per token");
    r.given = given.data();
    r.given_width = static_cast<int>(given.shape(1));
  }
  std::unique_lock lock(plan.mutex(), std::defer_lock);
  {
    nb::gil_scoped_release release;
    lock.lock();  // never while holding the interpreter: whoever runs a pass needs it back at the end
    plan.forward(groups, taps);
  }
  nb::list out;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    RowGroup& r = groups[i];
    nb::object logits = nb::none();
    if (want_logits[i]) {
      nb::dict rows;
      const std::size_t width = plan.logits_width();
      for (int row = 0; row < r.num; ++row) {
        const float* from = plan.logits_of(r.first_row + row);
        if (from == nullptr || (want_logits[i] < 2 && r.chosen[row] < 0)) continue;
        rows[nb::int_(row)] = to_numpy(std::vector<float>(from, from + width), {width});
      }
      logits = rows;
    }
    nb::dict hidden;
    const std::size_t width = plan.tap_width(), first = r.first_row * width, n = r.num;
    for (const int tap : taps) {
      const auto begin = plan.taps()[tap].begin() + first;
      hidden[nb::int_(tap)] = to_numpy(std::vector<float>(begin, begin + n * width), {n, width});
    }
    std::vector<std::int32_t> chosen(r.chosen.begin(), r.chosen.end());
    const std::size_t num = chosen.size();
    out.append(nb::make_tuple(to_numpy(std::move(chosen), {num}), logits, hidden));
  }
  return out;
}

}  // namespace

void bind_plan(nb::module_& m) {
  nb::class_<Plan>(m, "Plan", "The operations of one pass over preallocated buffers.")
      .def(
          "__init__",
          [](Plan* self, int layers, int kv_heads, int head_dim, int max_rows, int context,
             std::shared_ptr<Pool> pool, const std::string& isa, bool half_cache) {
            if (layers < 1 || kv_heads < 1 || head_dim < 8 || head_dim % 8 != 0 || max_rows < 1 ||
                context < 1)
              throw std::invalid_argument("plan: impossible shape");
            new (self) Plan({layers, kv_heads, head_dim, half_cache}, max_rows, context, std::move(pool),
                            &select_kernels(isa));
          },
          "layers"_a, "kv_heads"_a, "head_dim"_a, "max_rows"_a, "context"_a, "pool"_a, "isa"_a = "",
          "half_cache"_a = false)
      .def_prop_ro("isa", &Plan::isa)
      .def("buffer", &Plan::buffer, "width"_a, "quantised"_a = false, "compact"_a = false)
      .def("vector", [](Plan& p, Floats v) { return p.vector(v.data(), static_cast<int>(v.size())); })
      .def("embed", &Plan::embed, "table"_a, "dst"_a, "scale"_a = 1.0f)
      .def("rmsnorm", &Plan::rmsnorm, "src"_a, "weight"_a, "eps"_a, "dst"_a, "column"_a = 0)
      .def(
          "matmul",
          [](Plan& p, int src,
             const std::vector<std::tuple<std::shared_ptr<Matrix>, int, int, bool>>& products) {
            std::vector<Plan::Product> parts;
            for (const auto& [weight, dst, bias, accumulate] : products)
              parts.push_back({weight, dst, bias, accumulate});
            p.matmul(src, std::move(parts));
          },
          "src"_a, "products"_a,
          "products: (matrix, destination buffer, bias vector or -1, add to the destination).")
      .def("attention", &Plan::attention, "layer"_a, "q"_a, "k"_a, "v"_a, "dst"_a, "heads"_a,
           "inverse_frequencies"_a, "scale"_a, "window"_a = 0, "cap"_a = 0.0f,
           "No frequencies: no rotation. window: positions that a row sees, itself included; 0 = all. cap: "
           "scores "
           "become cap * tanh(score / cap); 0 = as they are.")
      .def("gated", &Plan::gated, "src"_a, "gate_weight"_a, "up_weight"_a, "gate"_a, "up"_a, "dst"_a,
           "gelu"_a = false,
           "dst = act(src * gate_weight) * (src * up_weight); act is SiLU, or GELU (by tanh).")
      .def("copy", &Plan::copy, "src"_a, "dst"_a)
      .def("norm_groups", &Plan::norm_groups, "buffer"_a, "weight"_a, "eps"_a, "size"_a,
           "RMS norm of every group of `size` columns by itself, in place.")
      .def("add_scaled", &Plan::add_scaled, "src"_a, "dst"_a, "scale"_a = 1.0f, "weight"_a = -1,
           "eps"_a = 0.0f, "dst += scale * src; with a weight, src is RMS-normalised first.")
      .def("cap", &Plan::cap, "buffer"_a, "divisor"_a, "cap"_a,
           "x / divisor, then cap * tanh(that / cap) unless cap is 0; in place.")
      .def("when_given", &Plan::when_given, "width"_a,
           "What is described from now on runs only where rows come with vectors of this width; 0 = always.")
      .def("given", &Plan::given, "dst"_a, "dst = the vectors that come with the rows.")
      .def("tap", &Plan::tap, "src"_a)
      .def("logits", &Plan::logits, "src"_a)
      .def("new_sequence", &Plan::new_sequence)
      .def("set_profiling", &Plan::set_profiling, "on"_a)
      .def_prop_ro("profile", &Plan::profile,
                   "Seconds per kind of operation since profiling was switched on.")
      .def("forward", &forward, "requests"_a, "taps"_a = std::vector<int>(),
           "requests: (sequence, tokens, parents or None, committed, chooser or None, logits wanted, vectors "
           "that come with the tokens or None). logits wanted: 0 = none, 1 = of the rows that were chosen "
           "for, 2 = of all from the last committed one on. taps: whose hidden states to return.");
}
