// A gateway's Submit becomes a request within bounds, or is refused.

#include <cstdint>

#include "common/check.h"
#include "dataplane/worker/submit_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace janus;  // NOLINT
  v1::ToAttention message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return 0;
  const Result<dataplane::Request> request = dataplane::ToRequest(message.submit(), 1, 4096);
  if (!request.ok()) return 0;
  JANUS_CHECK(!request->prompt.empty() && request->max_tokens >= 1);
  for (const int32_t token : request->prompt) JANUS_CHECK(token >= 0, token);
  for (const auto& [token, bias] : request->changes.bias) JANUS_CHECK(token >= 0, token);
  JANUS_CHECK(request->routed_from >= -1 && request->routed_from < 4096, request->routed_from);
  JANUS_CHECK(request->changes.min_tokens >= 0 && request->prompt_logprobs >= -1);
  return 0;
}
