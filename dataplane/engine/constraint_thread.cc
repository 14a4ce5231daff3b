#include "dataplane/engine/constraint_thread.h"

#include <utility>

namespace janus::dataplane {

ConstraintThread::~ConstraintThread() {
  std::jthread thread;
  {
    const MutexLock lock(mu_);
    ending_ = true;
    thread = std::move(thread_);
    changed_.NotifyAll();
  }
  // Joins without the lock, which the thread needs.
}

void ConstraintThread::Begin(std::vector<std::shared_ptr<Constraint>> constraints) {
  if (constraints.empty()) return;
  const MutexLock lock(mu_);
  next_ = std::move(constraints);
  if (!thread_.joinable()) thread_ = std::jthread([this] { Work(); });
  changed_.NotifyAll();
}

void ConstraintThread::Work() {
  for (;;) {
    std::shared_ptr<Constraint> one;
    {
      const MutexLock lock(mu_);
      while (next_.empty() && !ending_) changed_.Wait(mu_);
      if (ending_) return;
      // From the end: the step thread draws, and if need be computes, from the beginning.
      one = std::move(next_.back());
      next_.pop_back();
    }
    one->Prepare();
  }
}

}  // namespace janus::dataplane
