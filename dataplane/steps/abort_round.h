#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/clock.h"
#include "dataplane/steps/step_control.h"

namespace janus::dataplane {

// Who has left the steps that are given up, and who must be told (again): the coordinator's books
// from the first word of a missed round until all members have left. Members are numbered as in a
// TransportLayout. Time is passed in.
//
// Invariants: (1) complete only when every member has left steps up to the same fence. (2) No
// member has seen a ticket above that fence: one that says it has raises the fence, and all leave
// again. So whatever was posted until then is older than the next step.
//
// Confined to the step thread.
class AbortRound {
 public:
  // Who does not answer is told again after `again`, and is lost after `loss`.
  AbortRound(int members, uint64_t fence, Seconds again, Seconds loss, MonotonicTime now);

  uint64_t fence() const { return fence_; }
  // Whom to tell now; they count as told.
  std::vector<int> Due(MonotonicTime now);
  // When Due or `lost` has something to say: min() at once.
  MonotonicTime NextDeadline() const;

  // The member has left the steps up to `fence` and has seen tickets up to `newest`. False: not
  // what is awaited of it (another fence, said before, a number that no ticket of ours can have).
  bool OnLeft(int member, uint64_t fence, uint64_t newest);
  bool has_left(int member) const { return members_[static_cast<size_t>(member)].left; }
  bool complete() const;
  // Members that have not left when the loss deadline is over.
  std::vector<int> Lost(MonotonicTime now) const;

 private:
  struct Member {
    bool left = false;
    MonotonicTime tell = MonotonicTime::min();  // next time
  };

  const Seconds again_;
  const MonotonicTime lost_;
  uint64_t fence_;
  std::vector<Member> members_;
};

}  // namespace janus::dataplane
