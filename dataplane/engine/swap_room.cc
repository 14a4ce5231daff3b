#include "dataplane/engine/swap_room.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace janus::dataplane {

Status SwapRoom::TakePages(kernels::Context& context, int layers, size_t page_bytes, int pages) {
  JANUS_ASSIGN_OR_RETURN(memory_, context.AllocatePinned(page_bytes * static_cast<size_t>(layers) *
                                                         static_cast<size_t>(pages)));
  page_bytes_ = page_bytes;
  is_given_.assign(static_cast<size_t>(pages), false);
  return OkStatus();
}

int32_t SwapRoom::FindRun(int count) const {
  int free = 0;
  for (int32_t page = 0; page < pages(); ++page) {
    free = is_given_[static_cast<size_t>(page)] ? 0 : free + 1;
    if (free == count) return page - count + 1;
  }
  return -1;
}

bool SwapRoom::Give(int count, std::vector<int32_t>& to) {
  if (count > pages() - given_) return false;
  given_ += count;
  for (int32_t page = std::max(FindRun(count), 0); count > 0; ++page) {
    if (is_given_[static_cast<size_t>(page)]) continue;
    is_given_[static_cast<size_t>(page)] = true;
    to.push_back(page);
    --count;
  }
  return true;
}

void SwapRoom::TakeBack(std::vector<int32_t>& pages) {
  for (const int32_t page : pages) {
    JANUS_CHECK(is_given_[static_cast<size_t>(page)], page);
    is_given_[static_cast<size_t>(page)] = false;
  }
  given_ -= static_cast<int>(pages.size());
  pages.clear();
}

}  // namespace janus::dataplane
