// guessahead._native: what Python sees of the native engine. One file per class.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/gil.hpp"
#include "isa/kernels.hpp"

namespace nb = nanobind;

NB_MODULE(_native, m) {
  // A process may end while a thread generates or a stream is open: their objects are not lost.
  nb::set_leak_warnings(false);
  watch_exit();
  m.doc() = "guessahead's native engine: kernels, cache and passes. Described by guessahead.engines.native.";
  std::vector<std::string> formats;
  for (const ga::FormatInfo& format : ga::kFormats) formats.emplace_back(format.name);
  m.attr("FORMATS") = nb::cast(formats);
  m.attr("PAGE") = ga::kPage;
  bind_machine(m);
  bind_matrix(m);
  bind_sequence(m);
  bind_chooser(m);
  bind_likeliest(m);
  bind_plan(m);
  bind_suffix(m);
  bind_head_draft(m);
}
