// guessahead._native.SuffixAutomaton, SuffixReader and SuffixLookup: the `suffix` drafter.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <span>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/bind.hpp"
#include "draft/suffix_automaton.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using ga::SuffixAutomaton;
using ga::SuffixLookup;
using ga::SuffixReader;
using Shared = std::shared_ptr<const SuffixAutomaton>;

// Token ids that Python gave: an int32 array, which is not copied, or a list. By the buffer protocol, because
// this is a part of every step: nanobind's own arrays raise and catch an error for each read-only one.
class TokenIds {
 public:
  explicit TokenIds(nb::handle given) {
    if (PyObject_CheckBuffer(given.ptr())) {
      if (PyObject_GetBuffer(given.ptr(), &view_, PyBUF_ND | PyBUF_FORMAT) != 0) throw nb::python_error();
      const char code = view_.format == nullptr ? 'B' : view_.format[0];
      const bool is_int32 = (code == 'i' || code == 'l') && view_.format[1] == '\0' &&
                            view_.itemsize == sizeof(std::int32_t) && view_.ndim == 1 &&
                            reinterpret_cast<std::uintptr_t>(view_.buf) % alignof(std::int32_t) == 0;
      if (!is_int32) {
        PyBuffer_Release(&view_);
        throw nb::type_error("token ids must be int32[n] or a list of int");
      }
      ids_ = {static_cast<const std::int32_t*>(view_.buf), static_cast<std::size_t>(view_.shape[0])};
    } else {
      if (!nb::try_cast(given, list_, false))
        throw nb::type_error("token ids must be int32[n] or a list of int, each of at most 32 bits");
      ids_ = list_;
    }
  }
  ~TokenIds() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
  }
  TokenIds(const TokenIds&) = delete;
  TokenIds& operator=(const TokenIds&) = delete;
  operator std::span<const std::int32_t>() const { return ids_; }

 private:
  Py_buffer view_{};
  std::vector<std::int32_t> list_;
  std::span<const std::int32_t> ids_;
};

std::pair<std::int32_t, std::int32_t> longest_match(const SuffixAutomaton& self) {
  const SuffixAutomaton::Place place = self.longest_match();
  return {place.state, place.length};
}

// The ways on of a passage, as Python sees them.
struct Ways : SuffixAutomaton::Total {
  std::vector<SuffixAutomaton::Way> likeliest;
};

Ways ways(const SuffixAutomaton& self, std::int32_t state, std::int32_t length, std::size_t most) {
  if (state < 0 || static_cast<std::size_t>(state) >= self.num_states())
    throw nb::value_error("ways: there is no such state");
  Ways found;
  static_cast<SuffixAutomaton::Total&>(found) = self.ways({state, length}, most, found.likeliest);
  return found;
}

void construct(SuffixLookup* self, const std::vector<Shared>& others, std::int64_t min_match,
               std::size_t branches, std::int32_t vocab_size, std::vector<double> novelty) {
  new (self) SuffixLookup({min_match, branches, vocab_size, std::move(novelty)}, others);
}

nb::object guess(SuffixLookup& self, nb::handle history, std::int64_t budget, double least_probability) {
  if (budget < 0) throw nb::value_error("guess: the budget must not be negative");
  ga::Guesses found = self.guess(TokenIds(history), static_cast<std::size_t>(budget), least_probability);
  const std::size_t n = found.token_ids.size();
  if (n == 0) return nb::none();
  nb::object parents = nb::none();
  if (!found.is_chain) parents = nb::cast(ga::to_numpy(std::move(found.parents), {n}));
  return nb::make_tuple(ga::to_numpy(std::move(found.token_ids), {n}), parents,
                        ga::to_numpy(std::move(found.probabilities), {n}));
}

}  // namespace

void bind_suffix(nb::module_& m) {
  nb::class_<SuffixAutomaton::Way>(m, "SuffixWay", "One token that followed a passage.")
      .def_ro("token", &SuffixAutomaton::Way::token)
      .def_ro("count", &SuffixAutomaton::Way::count, "How often it followed.")
      .def_ro("state", &SuffixAutomaton::Way::state, "Of the passage with this token at its end.");
  nb::class_<Ways>(m, "SuffixWays", "How a text went on after a passage.")
      .def_ro("length", &Ways::length, "Of the longest part of the passage that something followed.")
      .def_ro("num_ways", &Ways::ways, "How many tokens followed it.")
      .def_ro("occurrences", &Ways::occurrences, "How often they followed it, together.")
      .def_ro("likeliest", &Ways::likeliest, "The likeliest first.");

  nb::class_<SuffixAutomaton> automaton(m, "SuffixAutomaton",
                                        "All passages of a growing text, and how it went on after each.");
  automaton.def(nb::init<>())
      .def(
          "extend", [](SuffixAutomaton& self, nb::handle ids) { self.extend(TokenIds(ids)); }, "token_ids"_a,
          "Append tokens, int32[n] or a list; a negative one, which must not recur, separates texts.")
      .def_prop_ro("num_tokens", &SuffixAutomaton::num_tokens)
      .def_prop_ro("num_states", &SuffixAutomaton::num_states)
      .def_prop_ro("longest_match", &longest_match,
                   "The longest passage that ends the text and also ended earlier: its state and length.")
      .def("ways", &ways, "state"_a, "length"_a, "most"_a,
           "How the text went on after a passage of `length` tokens; lists the `most` likeliest ways.");
  automaton.attr("MAX_COUNTED") = ga::kMaxCounted;

  nb::class_<SuffixReader>(m, "SuffixReader", "Where the end of a text stands in another one.")
      .def(nb::init<Shared>(), "automaton"_a)
      .def_prop_ro("state", [](const SuffixReader& self) { return self.place().state; })
      .def_prop_ro("length", [](const SuffixReader& self) { return self.place().length; })
      .def(
          "read", [](SuffixReader& self, nb::handle ids) { self.read(TokenIds(ids)); }, "token_ids"_a,
          "Go on by these tokens, int32[n] or a list.");

  nb::class_<SuffixLookup>(m, "SuffixLookup", "A running text, looked up in itself and in others.")
      .def("__init__", &construct, nb::kw_only(), "others"_a, "min_match"_a, "branches"_a, "vocab_size"_a,
           "novelty"_a)
      .def("guess", &guess, "history"_a, "budget"_a, "least_probability"_a,
           nb::sig("def guess(self, history: numpy.typing.NDArray[numpy.int32], budget: int, "
                   "least_probability: float) "
                   "-> tuple[numpy.typing.NDArray[numpy.int32], numpy.typing.NDArray[numpy.int32] | None, "
                   "numpy.typing.NDArray[numpy.float32]] | None"),
           "Takes in what is new of `history`, int32[n]; at most `budget` guesses after it as (token_ids, "
           "parents or None, probabilities), or None.");
}
