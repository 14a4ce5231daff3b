#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/control.h"
#include "common/status.h"

namespace janus::control {

// A running question. Destroying it cancels it; after that neither it nor `wake` runs. Thread-safe.
class ModelQuestion {
 public:
  virtual ~ModelQuestion() = default;
  virtual bool done() const = 0;
  // REQUIRES: done().
  virtual Result<ModelReport> result() const = 0;
};

// Asks workers for their model and resources: over gRPC on a cluster, scripted in tests.
// Thread-safe.
class ModelQuestions {
 public:
  using Wake = std::function<void()>;

  virtual ~ModelQuestions() = default;

  // A question always ends without help. Then `wake` is called once, on any thread.
  virtual std::unique_ptr<ModelQuestion> Ask(const std::string& service_uid,
                                             const std::string& address, Wake wake) = 0;
};

}  // namespace janus::control
