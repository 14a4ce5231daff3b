#include "operator/local/embedded/watched_calls.h"

#include <utility>

namespace janus::control {

class WatchedCalls::WatchedPrepare final : public MemberCall {
 public:
  WatchedPrepare(WatchedCalls& watch, std::unique_ptr<MemberCall> call)
      : watch_(watch), call_(std::move(call)) {
    const MutexLock lock(watch_.mu_);
    watch_.preparing_ = call_.get();
  }
  ~WatchedPrepare() override {
    const MutexLock lock(watch_.mu_);
    if (watch_.preparing_ == call_.get()) watch_.preparing_ = nullptr;
  }

  bool done() const override { return call_->done(); }
  Status result() const override { return call_->result(); }
  PrepareProgress progress() const override { return call_->progress(); }
  MonotonicTime last_heard() const override { return call_->last_heard(); }
  std::string waiting_for() const override { return call_->waiting_for(); }

 private:
  WatchedCalls& watch_;
  const std::unique_ptr<MemberCall> call_;
};

std::unique_ptr<MemberCall> WatchedCalls::Prepare(const MemberOrder& order,
                                                  const Topology& topology, const ServicePlan& plan,
                                                  Wake wake) {
  return std::make_unique<WatchedPrepare>(*this,
                                          calls_.Prepare(order, topology, plan, std::move(wake)));
}

PrepareProgress WatchedCalls::progress() const {
  const MutexLock lock(mu_);
  return preparing_ == nullptr ? PrepareProgress() : preparing_->progress();
}

}  // namespace janus::control
