#include "draft/head_draft.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ga {
namespace {

constexpr int kRoot = -1;               // the last committed token
const std::vector<int> kTaps = {0, 1};  // the layer's input, made of the hidden states, and its output

struct Guess {
  std::int32_t token;
  int parent;
  double probability, path_probability;
  std::size_t state;  // of the row that guessed it
};

// A row of the last pass, and the guess that it stands for.
struct Row {
  int guess, row;
};

class Draft {
 public:
  Draft(Plan& plan, Sequence& sequence, std::span<const std::int32_t> token_ids, const HeadAsk& ask)
      : plan_(plan), sequence_(sequence), token_ids_(token_ids), ask_(ask) {}

  HeadDraft run(std::span<const std::int32_t> next_ids, std::span<const float> fused) {
    const int num = static_cast<int>(next_ids.size());
    pass(next_ids.data(), nullptr, num, num, fused.data(), static_cast<int>(fused.size()) / num);
    const int num_read = sequence_.length();
    last_token_ = next_ids.back();
    entry_ = tap(0, num - 1);
    grow({{kRoot, num - 1}});
    sequence_.rollback(num_read);
    return likeliest_guesses();
  }

 private:
  void grow(std::vector<Row> rows) {
    double level_probability = 1.0, path_probability = 1.0;
    for (std::size_t depth = 0; depth < ask_.levels; ++depth) {
      const std::size_t first = guesses_.size();
      for (const Row& row : rows) add(row, depth);
      const std::vector<int> best = parents_of_next(first);
      const double before = std::exchange(level_probability, 0.0);
      for (const int guess : best) level_probability += guesses_[guess].path_probability;
      if (depth + 1 == ask_.levels || level_probability <= 0.0) return;
      if (ask_.stop) {
        path_probability *= ask_.stop->calibrated(level_probability / before, depth);
        if (!ask_.stop->goes_on(path_probability, depth + 1)) return;
      }
      rows = ask_.width == 1 ? next_of_chain(best.front()) : next_of_tree(best);
    }
  }

  // Adds the likeliest tokens after a row as guesses.
  void add(const Row& row, std::size_t depth) {
    const double before = row.guess == kRoot ? 1.0 : guesses_[row.guess].path_probability;
    const std::size_t state = states_.size();
    states_.push_back(tap(1, row.row));
    double least = 0.0;  // the first one counts whatever its probability
    for (const auto& [token, probability] : likeliest_after(row.row, depth)) {
      if (probability < least) break;
      guesses_.push_back({token, row.guess, probability, before * probability, state});
      least = ask_.least_sibling;
    }
  }

  std::vector<std::pair<std::int32_t, double>> likeliest_after(int row, std::size_t depth) const {
    const std::span<const float> logits(plan_.logits_of(row), static_cast<std::size_t>(plan_.logits_width()));
    const Kernels& kernels = select_kernels("");
    if (ask_.sampled) {
      Sampling sampling = ask_.sampled->sampling;
      sampling.position += depth;
      return likeliest_winners(kernels, logits, token_ids_, ask_.branches, ask_.sampled->trust, sampling);
    }
    const Likeliest found = likeliest(kernels, logits, ask_.branches);
    std::vector<std::pair<std::int32_t, double>> pairs;
    for (std::size_t i = 0; i < found.indices.size(); ++i)
      pairs.emplace_back(token_ids_[found.indices[i]], found.probabilities[i]);
    return pairs;
  }

  // Of the guesses from `first` on, those that get children.
  std::vector<int> parents_of_next(std::size_t first) const {
    std::vector<int> best(guesses_.size() - first);
    std::iota(best.begin(), best.end(), static_cast<int>(first));
    std::stable_sort(best.begin(), best.end(), [&](int a, int b) {
      return guesses_[a].path_probability > guesses_[b].path_probability;
    });
    best.resize(std::min(best.size(), ask_.width));
    std::erase_if(best, [&](int guess) {
      return std::find(ask_.ends.begin(), ask_.ends.end(), guesses_[guess].token) != ask_.ends.end();
    });
    return best;
  }

  // In a chain each guess follows in the cache, which is rolled back at the end.
  std::vector<Row> next_of_chain(int guess) {
    const Guess& last = guesses_[guess];
    pass(&last.token, nullptr, 1, 1, states_[last.state].data(), plan_.tap_width());
    return {{guess, 0}};
  }

  // In a tree the last row that was read runs again, and all guesses above the new ones.
  std::vector<Row> next_of_tree(const std::vector<int>& best) {
    std::vector<int> row_of(guesses_.size(), -1);
    for (int guess : best)
      for (; guess != kRoot && row_of[guess] < 0; guess = guesses_[guess].parent) row_of[guess] = 0;
    std::vector<std::int32_t> tokens{last_token_};
    std::vector<int> parents{-1};
    std::vector<float> given = entry_;
    for (std::size_t guess = 0; guess < guesses_.size(); ++guess) {  // parents have lower numbers
      if (row_of[guess] < 0) continue;
      const Guess& each = guesses_[guess];
      row_of[guess] = static_cast<int>(tokens.size());
      tokens.push_back(each.token);
      parents.push_back(each.parent == kRoot ? 0 : row_of[each.parent]);
      given.insert(given.end(), states_[each.state].begin(), states_[each.state].end());
    }
    sequence_.rollback(sequence_.length() - 1);  // a pass begins with a committed row
    pass(tokens.data(), parents.data(), static_cast<int>(tokens.size()), 1, given.data(), plan_.tap_width());
    std::vector<Row> rows;
    for (const int guess : best) rows.push_back({guess, row_of[guess]});
    return rows;
  }

  void pass(const std::int32_t* tokens, const int* parents, int num, int committed, const float* given,
            int given_width) {
    std::vector<RowGroup> groups(1);
    RowGroup& group = groups.front();
    group.sequence = &sequence_;
    group.tokens = tokens;
    group.parents = parents;
    group.num = num;
    group.committed = committed;
    group.all_logits = true;
    group.given = given;
    group.given_width = given_width;
    plan_.forward(groups, kTaps);
  }

  std::vector<float> tap(int number, int row) const {
    const std::size_t width = static_cast<std::size_t>(plan_.tap_width());
    const auto begin = plan_.taps()[number].begin() + static_cast<std::ptrdiff_t>(row * width);
    return {begin, begin + static_cast<std::ptrdiff_t>(width)};
  }

  HeadDraft likeliest_guesses() const {
    std::vector<int> order(guesses_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return guesses_[a].path_probability > guesses_[b].path_probability;
    });
    order.resize(std::min(order.size(), ask_.budget));
    std::sort(order.begin(), order.end());
    std::vector<int> number(guesses_.size(), kRoot);
    HeadDraft draft;
    for (const int guess : order) {
      const Guess& each = guesses_[guess];
      number[guess] = static_cast<int>(draft.tokens.size());
      draft.tokens.push_back(each.token);
      draft.parents.push_back(each.parent == kRoot ? kRoot : number[each.parent]);
      draft.probabilities.push_back(static_cast<float>(each.probability));
    }
    return draft;
  }

  Plan& plan_;
  Sequence& sequence_;
  const std::span<const std::int32_t> token_ids_;
  const HeadAsk& ask_;
  std::int32_t last_token_ = 0;
  std::vector<float> entry_;  // of the last row that was read
  std::vector<Guess> guesses_;
  std::vector<std::vector<float>> states_;
};

}  // namespace

double StopRule::calibrated(double probability, std::size_t depth) const {
  if (calibration.empty()) return probability;
  const std::vector<double>& table = calibration[std::min(depth, calibration.size() - 1)];
  const double place = std::clamp(probability, 0.0, 1.0) * static_cast<double>(table.size() - 1);
  return table[static_cast<std::size_t>(place)];
}

HeadDraft draft_of_head(Plan& plan, Sequence& sequence, std::span<const std::int32_t> next_ids,
                        std::span<const float> fused, std::span<const std::int32_t> token_ids,
                        const HeadAsk& ask) {
  return Draft(plan, sequence, token_ids, ask).run(next_ids, fused);
}

}  // namespace ga
