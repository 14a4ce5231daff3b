#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/status.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// Host memory for the pages of preempted sequences. Beside a device it is pinned, so that copies do
// not block the host. It is allocated once, with a fixed number of pages, and steps do not
// allocate. Pages have numbers, as in KvPagePool: a number means the same page in every layer, and
// neighbouring numbers are adjacent in memory.
//
// The host neither reads nor writes it. If all copies are queued on one stream, a page may be
// reused as soon as it is given back: the copy that overwrites it runs after those that read it.
//
// Confined to the step thread.
class SwapRoom {
 public:
  // Empty until TakePages.
  SwapRoom() = default;

  // Allocates `pages` of `page_bytes` in each of `layers`. ResourceExhausted: there is not so much
  // memory; it stays empty.
  Status TakePages(kernels::Context& context, int layers, size_t page_bytes, int pages);

  int pages() const { return static_cast<int>(is_given_.size()); }
  int given() const { return given_; }
  // Appends `count` numbers: a run of neighbours if there is one, otherwise the lowest free ones.
  // False (and nothing changed): too few are free.
  bool Give(int count, std::vector<int32_t>& to);
  // Gives back all of `pages` and empties it.
  void TakeBack(std::vector<int32_t>& pages);

  std::byte* PageAt(int layer, int32_t page) const {
    return memory_.data() +
           (static_cast<size_t>(layer) * is_given_.size() + static_cast<size_t>(page)) *
               page_bytes_;
  }

 private:
  // The first number of a run of `count` free pages; -1: there is no such run.
  int32_t FindRun(int count) const;

  size_t page_bytes_ = 0;
  kernels::Buffer memory_;  // [layers, pages, page_bytes]
  std::vector<bool> is_given_;
  int given_ = 0;
};

}  // namespace janus::dataplane
