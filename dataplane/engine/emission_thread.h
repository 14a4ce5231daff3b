#pragma once

#include <deque>
#include <thread>

#include "common/mutex.h"
#include "dataplane/engine/request.h"

namespace janus::dataplane {

// Passes what steps bring on to another sink from a thread of its own, so that messages are built
// while the next step runs. Nothing is lost and the order stays. Bounded: with kMostSteps steps
// undelivered, Push waits for the oldest; sinks do not block, so that is a matter of CPU time.
//
// Thread-safe.
class EmissionThread final : public TokenSink {
 public:
  static constexpr size_t kMostSteps = 64;

  // `to` must outlive this.
  explicit EmissionThread(TokenSink& to);
  // Delivers what is left.
  ~EmissionThread() override;

  void Push(StepOutput&& output) override;

 private:
  void Deliver();

  TokenSink& to_;
  Mutex mu_;
  CondVar changed_;
  std::deque<StepOutput> pending_ JANUS_GUARDED_BY(mu_);
  bool ending_ JANUS_GUARDED_BY(mu_) = false;
  std::jthread thread_;
};

}  // namespace janus::dataplane
