#include "operator/manager/campaign.h"

#include <string>
#include <utility>

namespace janus::control {

Campaign::Campaign(ObjectApi& api, LeaderElectionOptions options, const Timeline& timeline,
                   Logger log, std::function<void()> on_step)
    : timeline_(timeline),
      log_(std::move(log)),
      on_step_(std::move(on_step)),
      election_(api, std::move(options), timeline),
      last_step_(timeline.Now()) {}

void Campaign::Start() {
  {
    const MutexLock lock(mu_);
    last_step_ = timeline_.Now();
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void Campaign::Run(const std::stop_token& stop) {
  std::string leader;
  Status error;
  for (;;) {
    const MonotonicTime next = election_.Step(stop);
    {
      const MutexLock lock(mu_);
      last_step_ = timeline_.Now();
    }
    if (election_.leader() != leader) {
      leader = election_.leader();
      log_.Info("another leader", {{"leader", leader}});
    }
    if (!election_.last_error().ok() && error.ok() && !stop.stop_requested()) {
      log_.Warning("the lease cannot be written", {{"error", election_.last_error().message()}});
    }
    error = election_.last_error();
    on_step_();
    if (!timeline_.WaitUntil(next, stop)) return;
  }
}

void Campaign::End() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  const Status released = election_.Release();
  if (!released.ok()) {
    log_.Warning("the lease was not given up: the next leader waits until it has expired",
                 {{"error", released.message()}});
  }
}

MonotonicTime Campaign::last_step() const {
  const MutexLock lock(mu_);
  return last_step_;
}

}  // namespace janus::control
