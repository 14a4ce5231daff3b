#include "dataplane/engine/emission_thread.h"

#include <utility>

namespace janus::dataplane {

EmissionThread::EmissionThread(TokenSink& to) : to_(to), thread_([this] { Deliver(); }) {}

EmissionThread::~EmissionThread() {
  {
    const MutexLock lock(mu_);
    ending_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void EmissionThread::Push(StepOutput&& output) {
  {
    const MutexLock lock(mu_);
    while (pending_.size() >= kMostSteps) changed_.Wait(mu_);
    pending_.push_back(std::move(output));
    if (pending_.size() > 1) return;  // the thread was woken for the first, and takes all
  }
  changed_.NotifyAll();
}

void EmissionThread::Deliver() {
  for (;;) {
    std::deque<StepOutput> taken;
    {
      const MutexLock lock(mu_);
      while (pending_.empty() && !ending_) changed_.Wait(mu_);
      if (pending_.empty()) return;
      taken.swap(pending_);
    }
    changed_.NotifyAll();  // wakes a waiter for room
    for (StepOutput& output : taken) to_.Push(std::move(output));
  }
}

}  // namespace janus::dataplane
