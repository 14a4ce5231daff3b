#pragma once

#include <memory>
#include <string>
#include <vector>

#include "operator/topology/client.h"

namespace janus::control {

// A member that is not done with Prepare.
struct PendingMember {
  std::string name;
  std::string phase;  // it was in when last heard of; empty: it said nothing yet
  MonotonicTime last_heard;
};

// Prepare of all members as one.
class MembersPrepare : public PrepareCall {
 public:
  // Longest silent first.
  virtual std::vector<PendingMember> pending() const = 0;
};

// All members of a service, spoken to one by one: what the embedded cluster does, where every
// worker is a process of this machine. Prepare goes to all at once; Commit to the experts first, so
// that whoever serves finds them ready; statistics are joined. Errors begin with the member's name.
// Thread-compatible.
class Members {
 public:
  struct Member {
    std::string name;     // for messages: "experts-1"
    std::string address;  // gRPC target
    Role role = Role::kAttention;
  };
  Members(std::vector<Member> members, const Leader& leader);

  // One call for all: bytes are summed (0 until every member has said how many it has), it was
  // heard of when any was, and it fails with the first that fails (the others are then to be
  // aborted).
  std::unique_ptr<MembersPrepare> Prepare(const Topology& topology, const ServicePlan& plan,
                                          const TopologyClient::PrepareOptions& options);
  // Stops at the first error.
  Status Commit(uint64_t epoch, Seconds timeout);
  // Tries all; the first error.
  Status Abort(uint64_t epoch, Seconds timeout);
  // Asks all at once and waits `timeout` at most. Of the members that answered; the first error if
  // none did.
  Result<Statistics> GetStatistics(Seconds timeout);

 private:
  struct Peer {
    Member member;
    std::unique_ptr<TopologyClient> client;
  };
  std::vector<Peer> peers_;  // experts first
};

}  // namespace janus::control
