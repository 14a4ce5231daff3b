#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "common/status.h"

namespace janus::gateway {

// A few threads for work that is too long for the I/O threads: parsing and tokenizing requests.
// Thread-safe.
class TextWorkers {
 public:
  // `threads` >= 1; at most `queue_capacity` pieces of work wait.
  TextWorkers(int threads, size_t queue_capacity);
  // Finishes running work, drops waiting work.
  ~TextWorkers();

  // ResourceExhausted: the queue is full.
  Status TryPush(std::function<void()> work);

 private:
  void Run();

  const size_t queue_capacity_;
  Mutex mu_;
  CondVar changed_;
  std::deque<std::function<void()>> queue_ JANUS_GUARDED_BY(mu_);
  bool stopped_ JANUS_GUARDED_BY(mu_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace janus::gateway
