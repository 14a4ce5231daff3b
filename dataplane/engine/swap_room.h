#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/status.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// Memory of the host for the pages of preempted sequences, pinned where there is a device, so that
// no copy between the two holds the host up. As many pages as it was made for, taken once: while
// steps run nothing is taken or given back. Given out by number, like a KvPagePool's; a number
// means the same page in every layer, and neighbours lie one after the other.
//
// The host neither reads nor writes it. Whose copies are queued on one stream may have a page that
// was just given back: the copy that overwrites it runs after those that read it.
//
// Confined to the step thread.
class SwapRoom {
 public:
  // Without room until TakePages.
  SwapRoom() = default;

  // For `pages` of `page_bytes` in each of `layers`. ResourceExhausted: there is not so much
  // memory, and no room is had.
  Status TakePages(kernels::Context& context, int layers, size_t page_bytes, int pages);

  int pages() const { return static_cast<int>(is_given_.size()); }
  int given() const { return given_; }
  // Appends `count` numbers, neighbours where there are so many, else the lowest; false (and
  // nothing changed) when too few are free.
  bool Give(int count, std::vector<int32_t>& to);
  // Gives back all of `pages` and empties it.
  void TakeBack(std::vector<int32_t>& pages);

  std::byte* PageAt(int layer, int32_t page) const {
    return memory_.data() +
           (static_cast<size_t>(layer) * is_given_.size() + static_cast<size_t>(page)) *
               page_bytes_;
  }

 private:
  // Where `count` free ones begin; -1: nowhere.
  int32_t FindRun(int count) const;

  size_t page_bytes_ = 0;
  kernels::Buffer memory_;  // [layers, pages, page_bytes]
  std::vector<bool> is_given_;
  int given_ = 0;
};

}  // namespace janus::dataplane
