#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace janus::gateway {

// The APIs that answer with tokens: /v1/chat/completions, /v1/completions, Anthropic's /v1/messages
// and OpenAI's /v1/responses.
enum class Endpoint : uint8_t { kChat, kCompletions, kMessages, kResponses };

// Whether the prompt is a conversation, which the chat template writes.
inline bool IsChat(Endpoint endpoint) {
  return endpoint != Endpoint::kCompletions;
}

// What happens to a parameter that the table below does not list.
enum class UnknownParameters : uint8_t { kRefuse, kIgnore };

// One parameter of a request's body: the row that its reader and docs/openai-api.md share.
struct Parameter {
  enum class Kind : uint8_t {
    kBool,
    kInteger,  // from `least` to `most`
    kNumber,   // from `least` to `most`, both finite
    kOther,    // described by `values`
    kNeutral,  // refused, unless it is null or one of `values`, a JSON list; `notes` is advice
    kIgnored,  // any value
  };
  static constexpr uint8_t kChat = 1, kCompletions = 2, kMessages = 4, kResponses = 8;
  static constexpr uint8_t kBoth = kChat | kCompletions;
  static constexpr uint8_t kAll = kBoth | kMessages | kResponses;

  std::string_view name;
  uint8_t endpoints = kAll;
  Kind kind = Kind::kOther;
  double least = 0, most = 0;
  bool is_above_least = false;  // for a number: `least` itself is refused
  std::string_view values{};
  std::string_view absent{};  // the default
  std::string_view notes{};

  bool IsOf(Endpoint endpoint) const { return (endpoints >> static_cast<int>(endpoint) & 1) != 0; }
};

// Every parameter of all endpoints, in the order of the page.
std::span<const Parameter> Parameters();
// Null: the endpoint has no such parameter.
const Parameter* FindParameter(std::string_view name, Endpoint endpoint);

// The expected value, for messages: "an integer between 1 and 5".
std::string WantedOf(const Parameter& parameter);

// The table of docs/openai-api.md.
std::string ParameterTable();

inline constexpr int kMaxPrompts = 128;
inline constexpr int kMaxChoices = 128;  // in one request, over all prompts
inline constexpr int kMaxStops = 16;
inline constexpr size_t kMaxStopBytes = 4096;
inline constexpr int kMaxStopTokens = 64;
inline constexpr int kMaxBiases = 1024;
inline constexpr int64_t kMostTokens = int64_t{1} << 31;
inline constexpr int64_t kMostRoutedExperts = int64_t{1} << 24;  // numbers, in all answers

}  // namespace janus::gateway
