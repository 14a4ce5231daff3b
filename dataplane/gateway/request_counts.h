#pragma once

#include <cstdint>
#include <optional>

#include "common/clock.h"
#include "common/gateway_counts.h"
#include "common/mutex.h"
#include "dataplane/gateway/gateway_metrics.h"

namespace janus::gateway {

// Counts what becomes of requests, for scaling decisions and for scrapes. common/gateway_counts.h
// says what a request is, and what each number means. Thread-safe.
class RequestCounts {
 public:
  // `metrics` must outlive it.
  explicit RequestCounts(GatewayMetrics& metrics) : metrics_(metrics) {}

  void Arrived(uint64_t prompt_tokens);
  void CachedPrompt(uint64_t tokens);
  // Each ends one request, but Unread: it ends a call whose prompts were never read.
  void Unread();
  void Refused();
  void Failed();
  void Finished(uint64_t output_tokens, Seconds ttft, std::optional<Seconds> tpot);

  // The counters alone: gauges, the id and the number of the report are empty.
  GatewayCounts Read() const;

 private:
  GatewayMetrics& metrics_;
  mutable Mutex mu_;
  GatewayCounts counts_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::gateway
