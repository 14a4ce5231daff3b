#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/fetch_progress.h"
#include "common/status.h"

namespace janus::control {

// A running question. Destroying it cancels it; after that neither it nor `wake` runs. Thread-safe.
class FetchQuestion {
 public:
  virtual ~FetchQuestion() = default;
  virtual bool done() const = 0;
  // REQUIRES: done().
  virtual Result<FetchProgress> result() const = 0;
};

// Asks the pods of Jobs how far their downloads are: over gRPC on a cluster, scripted in tests.
// Thread-safe.
class FetchQuestions {
 public:
  using Wake = std::function<void()>;

  virtual ~FetchQuestions() = default;

  // `address`: host:port. A question always ends without help. Then `wake` is called once, on any
  // thread.
  virtual std::unique_ptr<FetchQuestion> Ask(const std::string& address, Wake wake) = 0;
};

}  // namespace janus::control
