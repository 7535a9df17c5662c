// Checks of what a cache promises, for tests and for idle time.
#pragma once
#include <span>

#include "cache/sequence.hpp"

namespace ga {

// Throws std::logic_error where a sequence's pages, lengths or rows contradict each other, or where a page is
// held by others than the given sequences: give all that there are.
void check_integrity(std::span<const Sequence* const> sequences);

}  // namespace ga
