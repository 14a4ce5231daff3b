// Bodies of OpenAI's /v1/responses: an accepted one is a chat that the template can read.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/check.h"
#include "dataplane/gateway/api/completion_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace janus::gateway;  // NOLINT
  using Json = nlohmann::json;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const auto parsed =
      ParseCompletionRequest(Endpoint::kResponses, body, UnknownParameters::kIgnore);
  const auto* request = std::get_if<CompletionRequest>(&parsed);
  if (request == nullptr) return 0;
  const Json messages = Json::parse(request->messages_json);
  JANUS_CHECK(!messages.empty());
  for (const Json& message : messages) {
    JANUS_CHECK(message["role"].is_string() && message["content"].is_string());
  }
  JANUS_CHECK(request->n == 1 && !request->echo);
  if (request->logprobs) JANUS_CHECK(*request->logprobs >= 0 && *request->logprobs <= 20);
  if (request->max_tokens) JANUS_CHECK(*request->max_tokens >= 1);
  JANUS_CHECK(request->stop.size() <= kMaxStops);
  if (request->temperature) JANUS_CHECK(*request->temperature >= 0 && *request->temperature <= 2);
  JANUS_CHECK(!request->reads_tool_calls || !request->tools_json.empty());
  if (!request->tools_json.empty()) {
    for (const Json& tool : Json::parse(request->tools_json)) {
      JANUS_CHECK(tool["type"] == "function" && tool["function"]["name"].is_string());
    }
  }
  const Json repeated = Json::parse(request->repeated_json);
  JANUS_CHECK(repeated["store"] == false && repeated["previous_response_id"].is_null());
  return 0;
}
