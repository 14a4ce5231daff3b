#pragma once

#include <vector>

#include "common/check.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "dataplane/engine/request.h"

namespace janus::bench {

// Records the end of each step that gave every request of the batch a token. Thread-safe.
class StepClock final : public dataplane::TokenSink {
 public:
  explicit StepClock(int batch) : batch_(batch) {}

  void Push(dataplane::StepOutput&& output) override {
    const MutexLock lock(mu_);
    for (const dataplane::TokenEvent& event : output.events) {
      JANUS_CHECK(event.finish != dataplane::FinishReason::kError, event.error.ToString());
      ended_ += event.finish != dataplane::FinishReason::kNone ? 1 : 0;
    }
    if (static_cast<int>(output.events.size()) == batch_) full_.push_back(MonotonicClock::now());
    if (ended_ == batch_) done_.NotifyAll();
  }

  // Waits for all answers. Returns the seconds of each step except the first, which begins with the
  // submission.
  std::vector<double> Await() {
    const MutexLock lock(mu_);
    const MonotonicTime deadline = MonotonicClock::now() + std::chrono::minutes(10);
    while (ended_ < batch_) JANUS_CHECK(done_.WaitUntil(mu_, deadline), "no end in 10 minutes");
    std::vector<double> seconds;
    for (size_t i = 1; i < full_.size(); ++i) {
      seconds.push_back(Seconds(full_[i] - full_[i - 1]).count());
    }
    return seconds;
  }

 private:
  const int batch_;
  Mutex mu_;
  CondVar done_;
  int ended_ JANUS_GUARDED_BY(mu_) = 0;
  std::vector<MonotonicTime> full_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::bench
