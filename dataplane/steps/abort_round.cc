#include "dataplane/steps/abort_round.h"

#include <algorithm>

namespace janus::dataplane {
AbortRound::AbortRound(int members, uint64_t fence, Seconds again, Seconds loss, MonotonicTime now)
    : again_(again),
      lost_(Later(now, loss)),
      fence_(fence),
      members_(static_cast<size_t>(members)) {}

std::vector<int> AbortRound::Due(MonotonicTime now) {
  std::vector<int> due;
  for (size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (member.left || now < member.tell) continue;
    member.tell = Later(now, again_);
    due.push_back(static_cast<int>(i));
  }
  return due;
}

MonotonicTime AbortRound::NextDeadline() const {
  MonotonicTime next = lost_;
  for (const Member& member : members_) {
    if (!member.left) next = std::min(next, member.tell);
  }
  return next;
}

bool AbortRound::OnLeft(int member, uint64_t fence, uint64_t newest) {
  Member& who = members_[static_cast<size_t>(member)];
  if (fence != fence_ || who.left || newest > fence_ + kMostStepsAhead) return false;
  if (newest > fence_) {
    fence_ = newest;
    std::fill(members_.begin(), members_.end(), Member());
    return true;
  }
  who.left = true;
  return true;
}

bool AbortRound::complete() const {
  return std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.left; });
}

std::vector<int> AbortRound::Lost(MonotonicTime now) const {
  std::vector<int> lost;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (now >= lost_ && !members_[i].left) lost.push_back(static_cast<int>(i));
  }
  return lost;
}

}  // namespace janus::dataplane
