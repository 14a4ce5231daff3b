#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "proto/control.pb.h"

namespace janus::dataplane {

// How far the members of an epoch are with preparing it, as far as they have said. Confined.
class PrepareBoard {
 public:
  PrepareBoard(std::vector<std::string> names, MonotonicTime now);

  void Heard(size_t member, const v1::PrepareProgress& progress, MonotonicTime now);
  // `cancelled`: we gave it up, which says nothing of the member.
  void Ended(size_t member, Status status, bool cancelled);

  bool done() const { return ended_ == members_.size(); }
  bool failed() const { return failed_; }
  // All as one: bytes are summed, none as long as somebody's are unknown, since a total that grows
  // would let the share that is done shrink. Without `done`.
  v1::PrepareProgress Summary() const;
  // With whom it failed, what others may have failed from (a lost connection) last.
  std::vector<v1::MemberFailure> Failures() const;

 private:
  struct Member {
    std::string name;
    std::string phase;
    uint64_t bytes_done = 0;
    uint64_t bytes_total = 0;
    MonotonicTime heard;
    std::optional<Status> ended;
    bool cancelled = false;
  };
  std::vector<Member> members_;
  size_t ended_ = 0;
  bool failed_ = false;
};

v1::MemberFailure FailureOf(const std::string& name, const Status& status);

}  // namespace janus::dataplane
