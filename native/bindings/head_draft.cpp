// guessahead._native.draft_of_head and HeadAsk: a whole draft of a draft head.
#include "draft/head_draft.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <mutex>

#include "bindings/arrays.hpp"
#include "bindings/bind.hpp"
#include "bindings/gil.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace ga;

namespace {

HeadDraft draft(Plan& plan, Sequence& sequence, Ints next_ids, FloatRows fused, Ints token_ids,
                const HeadAsk& ask) {
  if (next_ids.size() == 0 || fused.shape(0) != next_ids.size())
    throw nb::value_error("draft_of_head: one row of hidden states per token, and at least one");
  if (token_ids.size() != static_cast<std::size_t>(plan.logits_width()))
    throw nb::value_error("draft_of_head: one token of the target per token of the head");
  if (ask.stop)
    for (const auto& table : ask.stop->calibration)
      if (table.empty()) throw nb::value_error("draft_of_head: an empty table of calibration");
  std::unique_lock lock(plan.mutex(), std::defer_lock);
  const WithoutGil release(&lock);
  lock.lock();  // never while holding the interpreter, as in Plan.forward
  return draft_of_head(plan, sequence, {next_ids.data(), next_ids.size()}, {fused.data(), fused.size()},
                       {token_ids.data(), token_ids.size()}, ask);
}

}  // namespace

void bind_head_draft(nb::module_& m) {
  nb::class_<HeadAsk>(m, "HeadAsk", "What a draft of a head may contain.")
      .def(
          "__init__",
          [](HeadAsk* self, std::size_t budget, std::size_t levels, std::size_t branches, std::size_t width,
             double least_sibling, std::vector<std::int32_t> ends) {
            new (self) HeadAsk{budget, levels, branches, width, least_sibling, std::move(ends), {}, {}};
          },
          nb::kw_only(), "budget"_a, "levels"_a, "branches"_a, "width"_a, "least_sibling"_a, "ends"_a,
          "budget: most guesses. levels: most guesses one after the other. branches: children of a guess.\n"
          "width: guesses of a level that get children. least_sibling: a sibling less likely is left out.\n"
          "ends: tokens of the target that no guess follows.")
      .def(
          "stop",
          [](HeadAsk& self, std::vector<double> least, std::vector<std::vector<double>> calibration) {
            self.stop = StopRule{std::move(least), std::move(calibration)};
          },
          "least_path_probability"_a, "calibration"_a, "Sets the rule that ends the draft (see StopRule).")
      .def(
          "sample",
          [](HeadAsk& self, double trust, double temperature, std::int32_t top_k, double top_p, double min_p,
             std::uint64_t seed, std::uint32_t stream, std::uint64_t position) {
            self.sampled = HeadSampling{{temperature, top_k, top_p, min_p, seed, stream, position}, trust};
          },
          nb::kw_only(), "trust"_a, "temperature"_a, "top_k"_a, "top_p"_a, "min_p"_a, "seed"_a, "stream"_a,
          "position"_a, "Sets how the target samples (see likeliest_winners). position: of the first guess.");
  nb::class_<HeadDraft>(m, "HeadDraft", "The guesses of a head; a parent precedes its children.")
      .def_prop_ro(
          "tokens", [](const HeadDraft& d) { return nb::cast(to_numpy(d.tokens, {d.tokens.size()})); },
          nb::sig("def tokens(self) -> numpy.typing.NDArray[numpy.int32]"))
      .def_prop_ro(
          "parents", [](const HeadDraft& d) { return nb::cast(to_numpy(d.parents, {d.parents.size()})); },
          nb::sig("def parents(self) -> numpy.typing.NDArray[numpy.int32]"), "-1 = the last committed token.")
      .def_prop_ro(
          "probabilities",
          [](const HeadDraft& d) { return nb::cast(to_numpy(d.probabilities, {d.probabilities.size()})); },
          nb::sig("def probabilities(self) -> numpy.typing.NDArray[numpy.float32]"))
      .def_prop_ro(
          "is_chain",
          [](const HeadDraft& d) {
            for (std::size_t i = 0; i < d.parents.size(); ++i)
              if (d.parents[i] != static_cast<std::int32_t>(i) - 1) return false;
            return true;
          },
          "Whether each guess follows the one before.");
  m.def(
      "draft_of_head", &draft, "plan"_a, "sequence"_a, "next_ids"_a, "fused"_a, "token_ids"_a, "ask"_a,
      "Reads rows (the target's hidden states at t, float32[n, width], and the token at t + 1), and guesses\n"
      "after the last of them. token_ids: the target's id of each id of the head. Afterwards the sequence\n"
      "holds the rows that were read.");
}
