#pragma once

#include <deque>
#include <thread>

#include "common/mutex.h"
#include "dataplane/engine/request.h"

namespace janus::dataplane {

// Passes the output of steps to another sink on its own thread, so that messages are built while
// the next step runs. It loses nothing and keeps the order. Bounded: with kMostSteps undelivered
// steps, Push waits for the oldest. Sinks do not block, so it waits only for CPU time.
//
// Thread-safe.
class EmissionThread final : public TokenSink {
 public:
  static constexpr size_t kMostSteps = 64;

  // `to` must outlive this.
  explicit EmissionThread(TokenSink& to);
  // Delivers the remaining steps.
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
