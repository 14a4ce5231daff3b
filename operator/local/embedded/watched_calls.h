#pragma once

#include <memory>

#include "common/mutex.h"
#include "operator/reconcile/epochs/member_calls.h"

namespace janus::control {

// Forwards calls to members, and records the progress of Prepare for display. Thread-safe.
class WatchedCalls final : public MemberCalls {
 public:
  // `calls` outlives this, and this outlives the calls that it returns.
  explicit WatchedCalls(MemberCalls& calls) : calls_(calls) {}

  std::unique_ptr<MemberCall> Prepare(const MemberOrder& order, const Topology& topology,
                                      const ServicePlan& plan, Wake wake) override;
  std::unique_ptr<MemberCall> Commit(const MemberOrder& order, Wake wake) override {
    return calls_.Commit(order, std::move(wake));
  }
  std::unique_ptr<MemberCall> Abort(const MemberOrder& order, Wake wake) override {
    return calls_.Abort(order, std::move(wake));
  }
  std::unique_ptr<MemberCall> Drain(const MemberOrder& order, Seconds longest, Wake wake) override {
    return calls_.Drain(order, longest, std::move(wake));
  }
  std::unique_ptr<MemberCall> Supersede(const MemberOrder& order, const Successor& successor,
                                        Wake wake) override {
    return calls_.Supersede(order, successor, std::move(wake));
  }
  std::unique_ptr<StatisticsQuestion> Ask(const MemberOrder& order, Wake wake) override {
    return calls_.Ask(order, std::move(wake));
  }

  // Of the latest Prepare; empty while none is running.
  PrepareProgress progress() const;

 private:
  class WatchedPrepare;

  MemberCalls& calls_;
  mutable Mutex mu_;
  const MemberCall* preparing_ JANUS_GUARDED_BY(mu_) = nullptr;
};

}  // namespace janus::control
