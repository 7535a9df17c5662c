// The parts of the module, in the order in which they refer to each other.
#pragma once
#include <nanobind/nanobind.h>

void bind_machine(nanobind::module_& m);
void bind_matrix(nanobind::module_& m);
void bind_sequence(nanobind::module_& m);
void bind_chooser(nanobind::module_& m);
void bind_likeliest(nanobind::module_& m);
void bind_plan(nanobind::module_& m);
void bind_suffix(nanobind::module_& m);
void bind_head_draft(nanobind::module_& m);
