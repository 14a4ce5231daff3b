#pragma once

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "dataplane/gateway/call.h"
#include "dataplane/gateway/http_server.h"
#include "dataplane/gateway/text_workers.h"

namespace janus::gateway {

struct ServiceOptions {
  std::vector<std::string> api_keys;  // empty: anyone may call
  int64_t open_streams = 4096;        // completion requests at a time; beyond it 429
  CallDeadlines deadlines;
};

// The OpenAI API: /v1/chat/completions, /v1/completions, /v1/models, and /health, /metrics.
// Thread-safe; all arguments outlive it.
class GatewayService final : public HttpHandler {
 public:
  GatewayService(ServiceOptions options, const ServedModel& model, AttentionPool& pool,
                 TextWorkers& workers, const MetricRegistry& registry, GatewayMetrics& metrics,
                 const Clock& clock);

  std::optional<HttpReply> JudgeHead(const HttpHead& head) override;
  void Handle(std::shared_ptr<HttpExchange> exchange, HttpHead head, std::string body,
              MemoryLease memory) override;
  HttpReply Refusal(int status, std::string message) override;

  // From now on /health is 503: no new client should come.
  void Leave() { leaving_ = true; }
  // From now on no completion is taken in either.
  void StartDrain() { draining_ = true; }

 private:
  bool IsAuthorized(const std::string& authorization) const;
  void Complete(std::shared_ptr<HttpExchange> exchange, Endpoint endpoint, std::string body,
                MemoryLease memory);
  uint64_t DrawSeed();

  const ServiceOptions options_;
  const ServedModel& model_;
  AttentionPool& pool_;
  TextWorkers& workers_;
  const MetricRegistry& registry_;
  GatewayMetrics& metrics_;
  const Clock& clock_;
  const int64_t started_unix_seconds_;
  std::atomic<bool> leaving_ = false;
  std::atomic<bool> draining_ = false;
  Mutex mu_;
  std::mt19937_64 random_ JANUS_GUARDED_BY(mu_);
  CallContext calls_;
};

}  // namespace janus::gateway
