#include "dataplane/gateway/request_counts.h"

namespace janus::gateway {

void RequestCounts::Arrived(uint64_t prompt_tokens) {
  metrics_.arrived.Add();
  metrics_.arrived_prompt_tokens.Add(prompt_tokens);
  metrics_.prefix_queries.Add(prompt_tokens);
  const MutexLock lock(mu_);
  ++counts_.arrived;
  counts_.prompt_tokens += prompt_tokens;
  counts_.prompt_squares += prompt_tokens * prompt_tokens;
}

void RequestCounts::CachedPrompt(uint64_t tokens) {
  metrics_.prefix_hits.Add(tokens);
  const MutexLock lock(mu_);
  counts_.cached_prompt_tokens += tokens;
}

void RequestCounts::Unread() {
  metrics_.ended_refused.Add();
  const MutexLock lock(mu_);
  ++counts_.unread;
}

void RequestCounts::Refused() {
  metrics_.ended_refused.Add();
  const MutexLock lock(mu_);
  ++counts_.refused;
}

void RequestCounts::Failed() {
  metrics_.ended_failed.Add();
  const MutexLock lock(mu_);
  ++counts_.failed;
}

void RequestCounts::Finished(uint64_t output_tokens, Seconds ttft, std::optional<Seconds> tpot) {
  metrics_.ended_finished.Add();
  const MutexLock lock(mu_);
  ++counts_.finished;
  counts_.output_tokens += output_tokens;
  counts_.latencies.Add(ttft, tpot);
}

GatewayCounts RequestCounts::Read() const {
  const MutexLock lock(mu_);
  return counts_;
}

}  // namespace janus::gateway
