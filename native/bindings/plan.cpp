// guessahead._native.Plan: the operations of one pass.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "bindings/arrays.hpp"
#include "bindings/bind.hpp"
#include "bindings/gil.hpp"
#include "plan/plan.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace ga;

namespace {

// Of which rows a pass returns logits.
enum class Logits { None, Path, All };

// A sequence's share of a pass, as Python describes it. The arrays are kept alive by it.
struct Group {
  Sequence* sequence;
  Ints tokens;
  std::optional<Ints> parents;
  int committed;
  Chooser* chooser;
  Logits logits;
  std::optional<FloatRows> given;
  std::optional<Masks> masks;
};

// What the pass yields for a group.
struct Result {
  nb::object chosen, logits, hidden;
};

template <class T>
nb::object to_object(std::vector<T> values, std::initializer_list<std::size_t> shape) {
  return nb::cast(to_numpy(std::move(values), shape));
}

RowGroup unpacked(const Group& group, std::size_t vocab) {
  RowGroup r;
  const std::size_t num = group.tokens.size();
  r.sequence = group.sequence;
  r.tokens = group.tokens.data();
  r.num = static_cast<int>(num);
  if (group.parents && group.parents->size() != num)
    throw std::invalid_argument("forward: one parent per token");
  r.parents = group.parents ? group.parents->data() : nullptr;
  r.committed = group.committed;
  r.chooser = group.logits == Logits::All ? nullptr : group.chooser;
  r.all_logits = group.logits == Logits::All;
  if (group.given) {
    if (group.given->shape(0) != num) throw std::invalid_argument("forward: one vector per token");
    r.given = group.given->data();
    r.given_width = static_cast<int>(group.given->shape(1));
  }
  if (group.masks) {
    if (group.committed < 1 || group.masks->shape(0) != num - group.committed + 1)
      throw std::invalid_argument("forward: one mask for the last committed row and each row after it");
    if (group.masks->shape(1) * 32 < vocab) throw std::invalid_argument("forward: masks are too short");
    r.masks = group.masks->data();
    r.mask_words = static_cast<int>(group.masks->shape(1));
  }
  return r;
}

// One pass; a result for each group.
std::vector<Result> forward(Plan& plan, const std::vector<Group*>& wanted, const std::vector<int>& taps) {
  std::vector<RowGroup> groups;
  for (const Group* group : wanted) groups.push_back(unpacked(*group, plan.logits_width()));
  std::unique_lock lock(plan.mutex(), std::defer_lock);
  {
    const WithoutGil release(&lock);
    lock.lock();  // never while holding the interpreter: whoever runs a pass needs it back at the end
    plan.forward(groups, taps);
  }
  std::vector<Result> out;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    RowGroup& r = groups[i];
    Result result;
    result.logits = nb::none();
    if (wanted[i]->logits != Logits::None) {
      nb::dict rows;
      const std::size_t width = plan.logits_width();
      for (int row = 0; row < r.num; ++row) {
        const float* from = plan.logits_of(r.first_row + row);
        if (from == nullptr || (!r.all_logits && r.chosen[row] < 0)) continue;
        rows[nb::int_(row)] = to_object(std::vector<float>(from, from + width), {width});
      }
      result.logits = rows;
    }
    nb::dict hidden;
    const std::size_t width = plan.tap_width(), first = r.first_row * width, n = r.num;
    for (const int tap : taps) {
      const auto begin = plan.taps()[tap].begin() + first;
      hidden[nb::int_(tap)] = to_object(std::vector<float>(begin, begin + n * width), {n, width});
    }
    result.hidden = hidden;
    std::vector<std::int32_t> chosen(r.chosen.begin(), r.chosen.end());
    const std::size_t num = chosen.size();
    result.chosen = to_object(std::move(chosen), {num});
    out.push_back(std::move(result));
  }
  return out;
}

Logits parse_logits(const std::string& wanted) {
  if (wanted == "none") return Logits::None;
  if (wanted == "path") return Logits::Path;
  if (wanted == "all") return Logits::All;
  throw std::invalid_argument("logits must be none, path or all");
}

void bind_group(nb::module_& m) {
  nb::class_<Group>(m, "RowGroup", "A sequence's share of a pass.")
      .def(
          "__init__",
          [](Group* self, Sequence& sequence, Ints tokens, std::optional<Ints> parents, int committed,
             Chooser* chooser, const std::string& logits, std::optional<FloatRows> given,
             std::optional<Masks> masks) {
            new (self)
                Group{&sequence, tokens, parents, committed, chooser, parse_logits(logits), given, masks};
          },
          nb::kw_only(), "sequence"_a, "tokens"_a, "parents"_a = nb::none(), "committed"_a,
          "chooser"_a = nb::none(), "logits"_a = "none", "given"_a = nb::none(), "masks"_a = nb::none(),
          nb::keep_alive<1, 2>(), nb::keep_alive<1, 6>(),
          "tokens: int32[n], of which the first `committed` enter the cache. parents: int32[n], -1 = the "
          "last "
          "cached token; None = a chain. chooser: chooses from the last committed row on. logits: of no row "
          "(none), of those that were chosen for (path), or of all from the last committed one on, without "
          "choosing (all). given: float32[n, width], vectors that come with the tokens. masks: uint32[n - "
          "committed + 1, words], packed: the tokens that may be chosen, by row.");
  nb::class_<Result>(m, "GroupResult", "What a pass yields for a RowGroup.")
      .def_prop_ro(
          "chosen", [](const Result& r) { return r.chosen; },
          nb::sig("def chosen(self) -> numpy.typing.NDArray[numpy.int32]"),
          "int32[n]: the token chosen after each row, -1 where none was.")
      .def_prop_ro(
          "logits", [](const Result& r) { return r.logits; },
          nb::sig("def logits(self) -> dict[int, numpy.typing.NDArray[numpy.float32]] | None"),
          "Row -> float32[vocabulary].")
      .def_prop_ro(
          "hidden", [](const Result& r) { return r.hidden; },
          nb::sig("def hidden(self) -> dict[int, numpy.typing.NDArray[numpy.float32]]"),
          "Tap -> float32[n, width].");
}

}  // namespace

void bind_plan(nb::module_& m) {
  nb::class_<Plan::Product>(m, "Product",
                            "A matrix that a source is multiplied with, and where the result goes.")
      .def(
          "__init__",
          [](Plan::Product* self, std::shared_ptr<Matrix> matrix, int dst, int bias, bool add) {
            new (self) Plan::Product{std::move(matrix), dst, bias, add};
          },
          "matrix"_a, "dst"_a, nb::kw_only(), "bias"_a = -1, "add"_a = false,
          "dst: a buffer. bias: a vector, or -1. add: to what is there.");
  bind_group(m);
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
      .def("matmul", &Plan::matmul, "src"_a, "products"_a, "The products of one source, in one operation.")
      .def("attention", &Plan::attention, "layer"_a, "q"_a, "k"_a, "v"_a, "dst"_a, "heads"_a,
           "inverse_frequencies"_a, "scale"_a, "window"_a = 0, "cap"_a = 0.0f,
           "No frequencies: no rotation. window: positions that a row sees, itself included; 0 = all. cap:\n"
           "scores become cap * tanh(score / cap); 0 = as they are.")
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
      .def("forward", &forward, "groups"_a, "taps"_a = std::vector<int>(),
           "One pass over the rows of all groups. taps: whose hidden states to return.");
}
