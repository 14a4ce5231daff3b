#include "dataplane/gateway/text_workers.h"

namespace janus::gateway {

TextWorkers::TextWorkers(int threads, size_t queue_capacity) : queue_capacity_(queue_capacity) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

TextWorkers::~TextWorkers() {
  {
    MutexLock lock(mu_);
    stopped_ = true;
  }
  changed_.NotifyAll();
  threads_.clear();
}

Status TextWorkers::TryPush(std::function<void()> work) {
  {
    MutexLock lock(mu_);
    if (queue_.size() >= queue_capacity_) {
      return ResourceExhausted("the tokenizer's queue is full: " + std::to_string(queue_.size()) +
                               " requests wait");
    }
    queue_.push_back(std::move(work));
  }
  changed_.NotifyOne();
  return OkStatus();
}

void TextWorkers::Run() {
  for (;;) {
    std::function<void()> work;
    {
      MutexLock lock(mu_);
      while (queue_.empty() && !stopped_) changed_.Wait(mu_);
      if (stopped_) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace janus::gateway
