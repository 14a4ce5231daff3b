#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/control.h"
#include "common/status.h"

namespace janus::control {

// A question under way. Destroying it cancels it; nothing of it goes on afterwards, `wake`
// included. Thread-safe.
class ModelQuestion {
 public:
  virtual ~ModelQuestion() = default;
  virtual bool done() const = 0;
  // REQUIRES: done().
  virtual Result<ModelReport> result() const = 0;
};

// Asks workers of what model they are and what room they have: over gRPC on a cluster, scripted in
// tests. Thread-safe.
class ModelQuestions {
 public:
  using Wake = std::function<void()>;

  virtual ~ModelQuestions() = default;

  // Comes to an end by itself. `wake` is called once it has, on any thread.
  virtual std::unique_ptr<ModelQuestion> Ask(const std::string& service_uid,
                                             const std::string& address, Wake wake) = 0;
};

}  // namespace janus::control
