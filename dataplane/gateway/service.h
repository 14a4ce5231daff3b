#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "dataplane/gateway/answers/errors.h"
#include "dataplane/gateway/call.h"
#include "dataplane/gateway/content_coding.h"
#include "dataplane/gateway/cors.h"
#include "dataplane/gateway/http_server.h"
#include "dataplane/gateway/text_workers.h"

namespace janus::gateway {

struct ServiceOptions {
  std::vector<std::string> api_keys;  // empty: no key is needed
  int64_t open_streams = 4096;        // completion requests at a time; beyond it 429
  CallDeadlines deadlines;
  CorsOptions cors;
  size_t max_body_bytes = 4u << 20;  // of a decoded body; beyond it 413
};

// The OpenAI API: /v1/chat/completions, /v1/completions, /v1/responses and /v1/models; Anthropic's
// /v1/messages; and /health, /metrics.
// Thread-safe; all arguments outlive it.
class GatewayService final : public HttpHandler {
 public:
  GatewayService(ServiceOptions options, const ServedModel& model, AttentionPool& pool,
                 TextWorkers& workers, const MetricRegistry& registry, GatewayMetrics& metrics,
                 const Clock& clock);

  HttpHeaders AnswerHeaders(HttpHead& head) override;
  std::optional<HttpReply> JudgeHead(const HttpHead& head) override;
  void Handle(std::shared_ptr<HttpExchange> exchange, HttpHead head, std::string body,
              MemoryLease memory) override;
  HttpReply Refusal(std::string_view path, int status, std::string message) override;

  // From now on /health returns 503, so that no new client comes.
  void Leave() { leaving_ = true; }
  // From now on completions are refused too.
  void StartDrain() { draining_ = true; }

 private:
  bool IsAuthorized(const HttpHead& head) const;
  // A body that waits for a thread of the text workers.
  struct Body {
    std::string bytes;
    ContentCoding coding = ContentCoding::kIdentity;
    std::string request_id{};
    std::string traceparent{};
    ErrorForm errors = ErrorForm::kOpenAi;
  };
  void Complete(std::shared_ptr<HttpExchange> exchange, Endpoint endpoint, Body body,
                MemoryLease memory);
  // Answers with the result of `work` on the body, on a thread of the text workers.
  void AnswerText(std::shared_ptr<HttpExchange> exchange, Body body, MemoryLease memory,
                  std::function<RequestResult<std::string>(const std::string&)> work);
  // Reserves memory for a compressed body's decoded form, which has a bound, until it is read.
  bool HoldDecoded(const Body& body, MemoryLease& memory) const;
  RequestError NoRoomForDecoded() const;
  RequestResult<std::string> Decoded(const Body& body) const;
  RequestResult<PreparedRequest> Prepared(Endpoint endpoint, const Body& body,
                                          const PrepareBounds& bounds);
  std::string NewRequestId();
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
  std::atomic<uint64_t> requests_ = 0;
  Mutex mu_;
  std::mt19937_64 random_ JANUS_GUARDED_BY(mu_);
  CallContext calls_;
};

}  // namespace janus::gateway
