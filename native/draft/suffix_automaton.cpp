#include "draft/suffix_automaton.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace ga {

using Place = SuffixAutomaton::Place;

void SuffixAutomaton::extend(std::span<const std::int32_t> token_ids) {
  for (const std::int32_t token : token_ids) append(token);
}

Place SuffixAutomaton::longest_match() const {
  const std::int32_t state = states_[end_].link;
  return state < 0 ? Place{} : Place{state, states_[state].length};
}

Place SuffixAutomaton::step(Place place, std::int32_t token) const {
  std::int32_t following = follow(place.state, token);
  while (following < 0) {
    place.state = states_[place.state].link;
    if (place.state < 0) return {};
    place.length = states_[place.state].length;
    following = follow(place.state, token);
  }
  return {following, place.length + 1};
}

SuffixAutomaton::Total SuffixAutomaton::ways(Place place, std::size_t most,
                                             std::vector<Way>& likeliest) const {
  likeliest.clear();
  while (place.state > kStart) {
    const State& state = states_[place.state];
    if (state.next >= 0 && state.token >= 0) {
      const std::int32_t count = states_[state.next].count;
      likeliest.push_back({state.token, count, state.next, 0});
      return {place.length, 1, count};
    }
    if (state.has_edges()) {
      Total total{place.length};
      std::int32_t at = state.last_edge();
      do {
        at = edges_[at].after;
        const Edge& edge = edges_[at];
        if (edge.token < 0) continue;
        const std::int32_t count = states_[edge.to].count;
        likeliest.push_back({edge.token, count, edge.to, static_cast<std::int32_t>(total.ways)});
        total.ways += 1;
        total.occurrences += count;
      } while (at != state.last_edge());
      if (total.ways > 0) {
        const std::size_t kept = std::min(most, likeliest.size());
        std::partial_sort(likeliest.begin(), likeliest.begin() + kept, likeliest.end(),
                          [latest = state.latest](const Way& a, const Way& b) {
                            if (a.count != b.count) return a.count > b.count;
                            if ((a.token == latest) != (b.token == latest)) return a.token == latest;
                            return a.order < b.order;
                          });
        likeliest.resize(kept);
        return total;
      }
    }
    place = {state.link, states_[state.link].length};
  }
  return {};
}

void SuffixAutomaton::append(std::int32_t token) {
  const std::int32_t end = new_state(states_[end_].length + 1);
  num_tokens_ += 1;
  std::int32_t state = end_;
  for (int i = 0; i < kMaxCounted && state >= 0; ++i) {
    states_[state].latest = token;
    state = states_[state].link;
  }
  std::int32_t following = kNone;
  for (state = end_; state >= 0; state = states_[state].link) {
    following = follow(state, token);
    if (following >= 0) break;
    lead(state, token, end);
  }
  if (state >= 0) {
    const std::int32_t link = split(state, token, following);
    states_[end].link = link;
  }
  end_ = state = end;
  for (int i = 0; i < kMaxCounted && state > kStart; ++i) {
    states_[state].count += 1;
    state = states_[state].link;
  }
}

// The state of exactly the passages state + token: `following`, or the part of it that is them.
std::int32_t SuffixAutomaton::split(std::int32_t state, std::int32_t token, std::int32_t following) {
  if (states_[following].length == states_[state].length + 1) return following;
  const std::int32_t copy = new_state(states_[state].length + 1);
  const State& original = states_[following];
  states_[copy].link = original.link;
  states_[copy].count = original.count;
  states_[copy].latest = original.latest;
  if (original.has_edges()) {
    const std::int32_t last = original.last_edge();
    std::int32_t at = last;
    do {
      at = edges_[at].after;
      add_edge(copy, edges_[at].token, edges_[at].to);
    } while (at != last);
  } else {
    states_[copy].token = original.token;
    states_[copy].next = original.next;
  }
  states_[following].link = copy;
  for (; state >= 0 && follow(state, token) == following; state = states_[state].link)
    lead(state, token, copy);
  return copy;
}

std::int32_t SuffixAutomaton::new_state(std::int32_t length) {
  if (states_.size() >= std::numeric_limits<std::int32_t>::max() - 1)
    throw std::length_error("suffix automaton: the text is too long");
  states_.emplace_back().length = length;
  return static_cast<std::int32_t>(states_.size() - 1);
}

std::int32_t SuffixAutomaton::follow(std::int32_t state, std::int32_t token) const {
  const State& from = states_[state];
  if (!from.has_edges()) return from.token == token ? from.next : kNone;  // next is kNone where there is none
  const std::int32_t edge = edge_of(state, token);
  return edge < 0 ? kNone : edges_[edge].to;
}

// Makes `token` lead from `state` to `to`.
void SuffixAutomaton::lead(std::int32_t state, std::int32_t token, std::int32_t to) {
  State& from = states_[state];
  if (from.has_edges()) {
    const std::int32_t edge = edge_of(state, token);
    if (edge < 0)
      add_edge(state, token, to);
    else
      edges_[edge].to = to;
  } else if (from.next == kNone || from.token == token) {
    from.token = token;
    from.next = to;
  } else {
    const auto [first, where] = std::pair(from.token, from.next);
    from.token = -1;
    from.next = kNone;
    add_edge(state, first, where);
    add_edge(state, token, to);
  }
}

// A way that the state, which has edges or nothing yet, did not have.
void SuffixAutomaton::add_edge(std::int32_t state, std::int32_t token, std::int32_t to) {
  if (edges_.size() >= std::numeric_limits<std::int32_t>::max() - 2)
    throw std::length_error("suffix automaton: the text is too long");
  if (2 * (edges_.size() + 1) > slots_.size()) enlarge_slots();
  const auto added = static_cast<std::int32_t>(edges_.size());
  State& from = states_[state];
  if (from.has_edges()) {
    Edge& last = edges_[from.last_edge()];
    const std::int32_t first = last.after;
    last.after = added;
    edges_.push_back({state, token, to, first});
  } else {
    edges_.push_back({state, token, to, added});
  }
  from.next = -2 - added;
  slots_[slot_of(state, token)] = static_cast<std::uint32_t>(added) + 1;
}

std::int32_t SuffixAutomaton::edge_of(std::int32_t state, std::int32_t token) const {
  return static_cast<std::int32_t>(slots_[slot_of(state, token)]) - 1;
}

// Where the edge is, or the free slot where it would be.
std::size_t SuffixAutomaton::slot_of(std::int32_t state, std::int32_t token) const {
  const std::uint64_t key = static_cast<std::uint64_t>(state) << 32 | static_cast<std::uint32_t>(token);
  std::size_t slot = (key * 0x9E3779B97F4A7C15u) >> shift_;  // Fibonacci hashing
  for (;; slot = (slot + 1) & (slots_.size() - 1)) {
    if (slots_[slot] == 0) return slot;
    const Edge& edge = edges_[slots_[slot] - 1];
    if (edge.state == state && edge.token == token) return slot;
  }
}

void SuffixAutomaton::enlarge_slots() {
  const std::size_t size = std::max<std::size_t>(16, 2 * slots_.size());
  slots_.assign(size, 0);
  shift_ = 64;
  for (std::size_t n = size; n > 1; n /= 2) shift_ -= 1;
  for (std::size_t i = 0; i < edges_.size(); ++i)
    slots_[slot_of(edges_[i].state, edges_[i].token)] = static_cast<std::uint32_t>(i) + 1;
}

SuffixReader::SuffixReader(std::shared_ptr<const SuffixAutomaton> automaton)
    : automaton_(std::move(automaton)) {
  if (automaton_ == nullptr) throw std::invalid_argument("suffix reader: an automaton is needed");
}

void SuffixReader::read(std::span<const std::int32_t> token_ids) {
  for (const std::int32_t token : token_ids) place_ = automaton_->step(place_, token);
}

SuffixLookup::SuffixLookup(LookupParams params,
                           const std::vector<std::shared_ptr<const SuffixAutomaton>>& others)
    : params_(std::move(params)), readers_(others.begin(), others.end()) {
  if (params_.branches < 1 || params_.novelty.empty())
    throw std::invalid_argument("lookup: at least one branch and one value of novelty are needed");
}

Guesses SuffixLookup::guess(std::span<const std::int32_t> history, std::size_t budget, double least) {
  const auto fresh = history.subspan(std::min(own_.num_tokens(), history.size()));
  own_.extend(fresh);
  const SuffixAutomaton* automaton = &own_;
  Place place = own_.longest_match();
  for (SuffixReader& reader : readers_) {
    reader.read(fresh);
    if (reader.place().length > place.length + 1) {  // what stands in this very text is closer to it
      automaton = &reader.automaton();
      place = reader.place();
    }
  }
  if (place.length < params_.min_match) return {};
  return grow(*automaton, place, budget, least);
}

// Best first. The sums and products are doubles, each rounded by itself, so that every machine guesses the
// same.
Guesses SuffixLookup::grow(const SuffixAutomaton& automaton, Place place, std::size_t budget, double least) {
  Guesses result;
  waiting_.clear();
  std::int64_t age = 0;
  std::int32_t node = -1;
  double path_probability = 1.0;
  while (result.token_ids.size() < budget) {
    const SuffixAutomaton::Total total = automaton.ways(place, params_.branches, ways_);
    const std::size_t match = std::min<std::size_t>(total.length, params_.novelty.size() - 1);
    const double weight =
        static_cast<double>(total.occurrences) + static_cast<double>(total.ways) * params_.novelty[match];
    for (const SuffixAutomaton::Way& way : ways_) {
      const double probability = way.count / weight;
      if (path_probability * probability < least || way.token >= params_.vocab_size) continue;
      waiting_.push_back({path_probability * probability,
                          probability,
                          ++age,
                          node,
                          way.token,
                          {way.state, total.length + 1}});
      std::push_heap(waiting_.begin(), waiting_.end());
    }
    if (waiting_.empty()) break;
    std::pop_heap(waiting_.begin(), waiting_.end());
    const Waiting taken = waiting_.back();
    waiting_.pop_back();
    result.is_chain &= taken.parent == static_cast<std::int32_t>(result.token_ids.size()) - 1;
    node = static_cast<std::int32_t>(result.token_ids.size());
    path_probability = taken.path_probability;
    place = taken.place;
    result.token_ids.push_back(taken.token);
    result.parents.push_back(taken.parent);
    result.probabilities.push_back(static_cast<float>(taken.probability));
  }
  return result;
}

}  // namespace ga
