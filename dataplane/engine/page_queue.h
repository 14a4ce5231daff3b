#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace janus::dataplane {

// Pages in the order in which they were added; any of them can be removed, in constant time.
//
// Confined to the step thread.
class PageQueue {
 public:
  // `pages`: page numbers are below it.
  explicit PageQueue(int pages) : links_(static_cast<size_t>(pages)) {}

  int size() const { return size_; }
  bool Holds(int32_t page) const { return links_[static_cast<size_t>(page)].is_in; }
  // It is not in yet.
  void Add(int32_t page);
  // It is in.
  void Remove(int32_t page);
  // The page that was added before all others; -1: it is empty.
  int32_t first() const { return first_; }
  // The page that was added after this one, which is in; -1: none was.
  int32_t Next(int32_t page) const { return links_[static_cast<size_t>(page)].after; }

 private:
  struct Link {
    int32_t before = -1;
    int32_t after = -1;
    bool is_in = false;
  };
  int32_t& After(int32_t page) {
    return page < 0 ? first_ : links_[static_cast<size_t>(page)].after;
  }
  int32_t& Before(int32_t page) {
    return page < 0 ? last_ : links_[static_cast<size_t>(page)].before;
  }

  std::vector<Link> links_;  // [pages]
  int32_t first_ = -1;
  int32_t last_ = -1;
  int size_ = 0;
};

}  // namespace janus::dataplane
