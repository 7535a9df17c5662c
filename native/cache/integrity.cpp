#include "cache/integrity.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

namespace ga {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(std::string("cache: ") + what);
}

}  // namespace

void Sequence::check_integrity() const {
  const int num_rows = static_cast<int>(rows_.size());
  require(length_ >= 0, "a length is negative");
  require(committed_ >= 0 && committed_ <= num_rows, "more rows are committed than there are");
  // The committed rows count once the pass is over.
  const int first = num_rows == 0 ? length_ : rows_[0].position;
  require(first == length_ || first + committed_ == length_, "the last pass does not follow the cache");
  int last = length_ - 1, slots = 0;
  std::set<int> in_place;  // positions of rows that lie in their pages
  for (int r = 0; r < num_rows; ++r) {
    const RowPlace& row = rows_[r];
    require(row.parent < r, "a row comes before its parent");
    require(row.position == (row.parent < 0 ? first : rows_[row.parent].position + 1), "a row is misplaced");
    require(r >= committed_ || (row.slot < 0 && row.parent == r - 1), "a committed row is not in its page");
    if (row.slot < 0)
      require(in_place.insert(row.position).second, "two rows lie in one place");
    else
      require(row.slot == slots++, "a slot is skipped");
    last = std::max(last, row.position);
  }
  require(scratch_.size() >= slots * shape_.row_bytes(), "scratch is too small");
  require(pages_.size() >= static_cast<std::size_t>(last + kPage) / kPage, "a page is missing");
  std::set<const std::byte*> distinct;
  for (const auto& page : pages_) {
    require(page != nullptr, "a page is empty");
    require(distinct.insert(page.get()).second, "a page stands in two places");
  }
}

void check_integrity(std::span<const Sequence* const> sequences) {
  std::map<const std::byte*, std::pair<long, long>> pages;  // how often found, and how often counted
  for (const Sequence* sequence : sequences) {
    sequence->check_integrity();
    for (const auto& page : sequence->pages()) {
      ++pages[page.get()].first;
      pages[page.get()].second = page.use_count();
    }
  }
  for (const auto& [page, counts] : pages)
    require(counts.first == counts.second, "a page's count of owners is wrong");
}

}  // namespace ga
