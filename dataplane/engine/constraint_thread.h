#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "dataplane/engine/constraint.h"

namespace janus::dataplane {

// Computes the masks of constrained rows on its own thread, while the step thread computes the
// layers. It keeps at most the constraints of the newest step. Thread-safe.
class ConstraintThread {
 public:
  ConstraintThread() = default;
  ~ConstraintThread();
  ConstraintThread(const ConstraintThread&) = delete;
  ConstraintThread& operator=(const ConstraintThread&) = delete;

  // Begins with these; older ones that have not begun are dropped. Their owner computes those
  // itself when it needs them. The first call starts the thread.
  void Begin(std::vector<std::shared_ptr<Constraint>> constraints);

 private:
  void Work();

  Mutex mu_;
  CondVar changed_;
  std::vector<std::shared_ptr<Constraint>> next_ JANUS_GUARDED_BY(mu_);
  bool ending_ JANUS_GUARDED_BY(mu_) = false;
  std::jthread thread_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::dataplane
