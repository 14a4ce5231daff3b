// HTTP bodies: the first byte chooses the endpoint. An accepted body is within its bounds.

#include <cstdint>
#include <string_view>

#include "common/check.h"
#include "dataplane/gateway/api/completion_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace janus::gateway;  // NOLINT
  if (size == 0) return 0;
  const auto endpoint = data[0] % 2 == 0 ? Endpoint::kChat : Endpoint::kCompletions;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto parsed = ParseCompletionRequest(endpoint, body);
  const auto* request = std::get_if<CompletionRequest>(&parsed);
  if (request == nullptr) return 0;
  JANUS_CHECK(request->stop.size() <= kMaxStops);
  for (const std::string& stop : request->stop) {
    JANUS_CHECK(!stop.empty() && stop.size() <= kMaxStopBytes);
  }
  if (request->temperature) JANUS_CHECK(*request->temperature >= 0 && *request->temperature <= 2);
  if (request->top_p) JANUS_CHECK(*request->top_p > 0 && *request->top_p <= 1);
  JANUS_CHECK(request->n >= 1 && request->n <= kMaxChoices);
  JANUS_CHECK(request->repetition_penalty > 0 && request->min_p >= 0 && request->min_p <= 1);
  JANUS_CHECK(request->logit_bias.size() <= static_cast<size_t>(kMaxBiases));
  for (const auto& [token, bias] : request->logit_bias) {
    JANUS_CHECK(token >= 0 && bias >= -100 && bias <= 100);
  }
  if (endpoint == Endpoint::kCompletions) {
    JANUS_CHECK(!request->prompts.empty() && request->prompts.size() <= kMaxPrompts);
  }
  return 0;
}
