#include "dataplane/worker/token_router.h"

#include <utility>

namespace janus::dataplane {

uint64_t TokenRouter::Add(std::shared_ptr<TokenReceiver> receiver) {
  const MutexLock lock(mu_);
  receivers_.emplace(next_, std::move(receiver));
  return next_++;
}

void TokenRouter::Remove(uint64_t stream) {
  const MutexLock lock(mu_);
  receivers_.erase(stream);
}

size_t TokenRouter::streams() const {
  const MutexLock lock(mu_);
  return receivers_.size();
}

void TokenRouter::Push(StepOutput&& output) {
  std::map<uint64_t, StepOutput> by_stream;
  if (output.is_for_all) {
    const MutexLock lock(mu_);
    for (const auto& [stream, receiver] : receivers_) by_stream[stream];
  }
  for (TokenEvent& event : output.events) {
    StepOutput& own = by_stream[event.key.stream];
    own.events.push_back(std::move(event));
  }
  for (auto& [stream, own] : by_stream) {
    std::shared_ptr<TokenReceiver> receiver;
    {
      const MutexLock lock(mu_);
      const auto found = receivers_.find(stream);
      if (found == receivers_.end()) continue;
      receiver = found->second;
    }
    own.step = output.step;
    own.kv_tokens_in_use = output.kv_tokens_in_use;
    own.keys = output.keys;
    own.waiting = output.waiting;
    own.running = output.running;
    own.timed_waits = output.timed_waits;
    own.timed_overruns = output.timed_overruns;
    own.holding = output.holding;
    receiver->OnStep(std::move(own));
  }
}

}  // namespace janus::dataplane
