#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "proto/control.pb.h"

namespace janus::dataplane {

// The progress of an epoch's members in preparing it, as they have reported it. Confined.
class PrepareBoard {
 public:
  PrepareBoard(std::vector<std::string> names, MonotonicTime now);

  void Heard(size_t member, const v1::PrepareProgress& progress, MonotonicTime now);
  // `cancelled`: we cancelled the call, so its status says nothing about the member.
  void Ended(size_t member, Status status, bool cancelled);

  bool done() const { return ended_ == members_.size(); }
  bool failed() const { return failed_; }
  // The sum over all members, without `done`. Bytes are 0 until every member has reported its
  // total, because a growing total would let the finished share shrink.
  v1::PrepareProgress Summary() const;
  // The members that failed. Failures that may follow from another member's (a lost connection)
  // come last.
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
