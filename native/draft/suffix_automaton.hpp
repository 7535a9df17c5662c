// All passages of a growing text, and how it went on after each: the suffix automaton (Blumer et al. 1985;
// built online, a constant number of steps per token on average). And the drafts that grow from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace ga {

// Occurrences are counted for so many passages per token, the longest first. Ordinary text has fewer that end
// at one place; text that repeats one token has as many as tokens, and would take quadratic time.
constexpr int kMaxCounted = 24;

// Append-only. Negative tokens separate texts: they lead nowhere, if each stands there once.
//
// A state stands for the passages that end at the same places, and counts how often they occurred. The state
// of the longest passage that equals the end of the text and stood somewhere before is kept up to date.
//
// Nothing here is locked. Several generations may read one automaton while another appends to it: Python
// calls hold the GIL from end to end, and between two calls every state and place that was handed out stays
// valid.
class SuffixAutomaton {
 public:
  static constexpr std::int32_t kStart = 0;  // the state of the empty passage

  // A passage: its state, and its length.
  struct Place {
    std::int32_t state = kStart, length = 0;
  };
  // One way on: where `token` leads, and how often it followed. order: of first occurrence.
  struct Way {
    std::int32_t token, count, state, order;
  };
  // All ways on of a passage of `length` tokens, and how often they were taken.
  struct Total {
    std::int32_t length = 0;
    std::int64_t ways = 0, occurrences = 0;
  };

  SuffixAutomaton() : states_(1) { states_[kStart].link = kNone; }
  void extend(std::span<const std::int32_t> token_ids);
  std::size_t num_tokens() const { return num_tokens_; }
  std::size_t num_states() const { return states_.size(); }

  // The longest passage that ends the text and also ended earlier.
  Place longest_match() const;
  // The longest passage that ends with `token` and otherwise as `place`, and occurs.
  Place step(Place place, std::int32_t token) const;
  // How the text went on after a passage: the `most` likeliest ways go into `likeliest`, the likeliest first.
  // Equal counts are ordered by which came last, then by which came first. A passage that stood only at the
  // end of the text stands for its longest part that was followed by something; the length is that one's.
  Total ways(Place place, std::size_t most, std::vector<Way>& likeliest) const;

 private:
  static constexpr std::int32_t kNone = -1;

  // Most states go on in one way only: `token` leads to `next`. Where there are several, next is
  // -2 - (index of the last edge); where there is none, kNone.
  struct State {
    std::int32_t link = kStart;  // the longest shorter passage that ends at more places
    std::int32_t length = 0;     // of the state's longest passage
    std::int32_t count = 0;
    std::int32_t latest = -1;  // the token that followed last time
    std::int32_t token = -1, next = kNone;

    bool has_edges() const { return next < kNone; }
    std::int32_t last_edge() const { return -2 - next; }
  };
  // The edges of a state form a ring, in order of first occurrence: `after` the last one comes the first.
  struct Edge {
    std::int32_t state, token, to, after;
  };

  void append(std::int32_t token);
  std::int32_t split(std::int32_t state, std::int32_t token, std::int32_t following);
  std::int32_t new_state(std::int32_t length);
  std::int32_t follow(std::int32_t state, std::int32_t token) const;
  void lead(std::int32_t state, std::int32_t token, std::int32_t to);
  void add_edge(std::int32_t state, std::int32_t token, std::int32_t to);
  std::int32_t edge_of(std::int32_t state, std::int32_t token) const;
  std::size_t slot_of(std::int32_t state, std::int32_t token) const;
  void enlarge_slots();

  std::vector<State> states_;
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> slots_;  // hash table: 1 + index into edges_, 0 = free; size: a power of two
  int shift_ = 64;                    // 64 - log2(size of slots_)
  std::int32_t end_ = kStart;
  std::size_t num_tokens_ = 0;
};

// Where the end of a text stands in another one.
class SuffixReader {
 public:
  explicit SuffixReader(std::shared_ptr<const SuffixAutomaton> automaton);  // not null
  void read(std::span<const std::int32_t> token_ids);
  const SuffixAutomaton& automaton() const { return *automaton_; }
  SuffixAutomaton::Place place() const { return place_; }

 private:
  std::shared_ptr<const SuffixAutomaton> automaton_;
  SuffixAutomaton::Place place_;
};

// min_match: shortest passage that counts. branches: most guesses under one node, at least 1. Tokens from
// vocab_size on are not guessed. novelty: in how many new ways, in occurrences, a match of so many tokens
// goes on for each way it went on before; the last one stands for all longer matches.
struct LookupParams {
  std::int64_t min_match = 1;
  std::size_t branches = 1;
  std::int32_t vocab_size = 0;
  std::vector<double> novelty;
};

// A tree of guesses as in types.Draft, the likeliest path first; is_chain: each hangs under the one before.
struct Guesses {
  std::vector<std::int32_t> token_ids, parents;
  std::vector<float> probabilities;
  bool is_chain = true;
};

// A running text, looked up in itself and in others.
class SuffixLookup {
 public:
  SuffixLookup(LookupParams params, const std::vector<std::shared_ptr<const SuffixAutomaton>>& others);
  // Takes in what is new of `history` (all tokens so far), and guesses at most `budget` tokens after it, none
  // with a probability (all above it included) below `least`.
  Guesses guess(std::span<const std::int32_t> history, std::size_t budget, double least);

 private:
  // A guess that was not taken yet. path_probability: that it and all guesses above it are right.
  struct Waiting {
    double path_probability, probability;
    std::int64_t age;
    std::int32_t parent, token;
    SuffixAutomaton::Place place;

    bool operator<(const Waiting& other) const {  // of equally likely ones, the oldest is the greatest
      return path_probability != other.path_probability ? path_probability < other.path_probability
                                                        : age > other.age;
    }
  };

  Guesses grow(const SuffixAutomaton& automaton, SuffixAutomaton::Place place, std::size_t budget,
               double least);

  LookupParams params_;
  SuffixAutomaton own_;
  std::vector<SuffixReader> readers_;
  std::vector<SuffixAutomaton::Way> ways_;  // scratch memory of `grow`
  std::vector<Waiting> waiting_;
};

}  // namespace ga
