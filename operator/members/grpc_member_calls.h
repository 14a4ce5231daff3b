#pragma once

#include <memory>
#include <string>

#include "common/statistics.h"
#include "operator/members/connections.h"
#include "operator/reconcile/epochs/member_calls.h"

namespace janus::control {

struct GrpcMemberCallsOptions {
  size_t most_connections = 256;
  bool one_machine = false;                    // all workers of a service run on this machine
  bool debug_logits_hash = false;              // for all services
  Connections::SecurityOf security = nullptr;  // null: plain text
};

// The calls of member_calls.h over gRPC. Each goes to one attention instance of the service, the
// first by rank that answers, which relays it to the others (proto/control.proto). An order without
// an attention instance has no recipient, so it is done at once. Errors name the failed member; a
// member's error arrives as `FailedPrecondition`.
//
// Thread-safe. Outlives its calls.
class GrpcMemberCalls final : public MemberCalls {
 public:
  explicit GrpcMemberCalls(const GrpcMemberCallsOptions& options)
      : options_(options), connections_(options.most_connections, options.security) {}

  std::unique_ptr<MemberCall> Prepare(const MemberOrder& order, const Topology& topology,
                                      const ServicePlan& plan, Wake wake) override;
  std::unique_ptr<MemberCall> Commit(const MemberOrder& order, Wake wake) override;
  std::unique_ptr<MemberCall> Abort(const MemberOrder& order, Wake wake) override;
  std::unique_ptr<MemberCall> Drain(const MemberOrder& order, Seconds longest, Wake wake) override;
  std::unique_ptr<MemberCall> Supersede(const MemberOrder& order, const Successor& successor,
                                        Wake wake) override;
  std::unique_ptr<StatisticsQuestion> Ask(const MemberOrder& order, Wake wake) override;

  size_t connections() const { return connections_.open(); }

 private:
  const GrpcMemberCallsOptions options_;
  Connections connections_;
};

}  // namespace janus::control
