#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/clock.h"
#include "dataplane/steps/step_control.h"

namespace janus::dataplane {

// Tracks which members have left the steps that are given up, and which must be asked, or asked
// again, to leave. The coordinator keeps this from the first report of a missed round until all
// members have left. Members are numbered as in a TransportLayout. The caller passes the time in.
//
// Invariants: (1) complete only when every member has left steps up to the same fence. (2) No
// member has seen a ticket above that fence. A member that reports one raises the fence, and all
// leave again. Therefore whatever was posted until then is older than the next step.
//
// Confined to the step thread.
class AbortRound {
 public:
  // A member that does not answer is asked again after `again`, and counts as lost after `loss`.
  AbortRound(int members, uint64_t fence, Seconds again, Seconds loss, MonotonicTime now);

  uint64_t fence() const { return fence_; }
  // The members to ask now. Returning a member counts as asking it.
  std::vector<int> Due(MonotonicTime now);
  // When Due or Lost can next return a member; min(): at once.
  MonotonicTime NextDeadline() const;

  // The member reports that it has left the steps up to `fence` and has seen tickets up to
  // `newest`. False: the report does not count (another fence, a repetition, or a number that no
  // ticket can have).
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
