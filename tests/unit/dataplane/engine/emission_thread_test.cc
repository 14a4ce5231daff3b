#include "dataplane/engine/emission_thread.h"

#include <gtest/gtest.h>

#include <vector>

namespace janus::dataplane {
namespace {

// Blocks in Push until it is opened.
class GatedSink final : public TokenSink {
 public:
  void Push(StepOutput&& output) override {
    const MutexLock lock(mu_);
    while (!open_) changed_.Wait(mu_);
    steps_.push_back(output.step);
    events_ += output.events.size();
  }
  void Open() {
    const MutexLock lock(mu_);
    open_ = true;
    changed_.NotifyAll();
  }
  std::vector<uint64_t> steps() {
    const MutexLock lock(mu_);
    return steps_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool open_ JANUS_GUARDED_BY(mu_) = false;
  std::vector<uint64_t> steps_ JANUS_GUARDED_BY(mu_);
  size_t events_ JANUS_GUARDED_BY(mu_) = 0;
};

StepOutput OutputOf(uint64_t step) {
  StepOutput output;
  output.step = step;
  output.events.resize(3);
  return output;
}

TEST(EmissionThread, DeliversEverythingInOrderBeforeItEnds) {
  GatedSink sink;
  sink.Open();
  std::vector<uint64_t> all;
  {
    EmissionThread emission(sink);
    for (uint64_t step = 1; step <= 1000; ++step) {
      emission.Push(OutputOf(step));
      all.push_back(step);
    }
  }
  EXPECT_EQ(sink.steps(), all);
}

TEST(EmissionThread, DoesNotWaitForASlowReceiverUntilItsBoundAndLosesNothingBeyond) {
  GatedSink sink;
  std::vector<uint64_t> all;
  {
    EmissionThread emission(sink);
    // The receiver may hold one. These calls return although nothing has been delivered.
    for (uint64_t step = 1; step <= EmissionThread::kMostSteps; ++step) {
      emission.Push(OutputOf(step));
      all.push_back(step);
    }
    EXPECT_TRUE(sink.steps().empty());
    std::jthread beyond([&] {
      for (uint64_t step = all.size() + 1; step <= 300; ++step) emission.Push(OutputOf(step));
    });
    sink.Open();
    beyond.join();
    for (uint64_t step = all.size() + 1; step <= 300; ++step) all.push_back(step);
  }
  EXPECT_EQ(sink.steps(), all);
}

}  // namespace
}  // namespace janus::dataplane
