#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace janus::gateway {

enum class Endpoint : uint8_t { kChat, kCompletions };

// What becomes of a parameter that the table below does not have.
enum class UnknownParameters : uint8_t { kRefuse, kIgnore };

// One parameter of a request's body: the row that its reader and docs/openai-api.md share.
struct Parameter {
  enum class Kind : uint8_t {
    kBool,
    kInteger,  // from `least` to `most`
    kNumber,   // from `least` to `most`, both finite
    kOther,    // what `values` says
    kNeutral,  // refused, unless it is null or one of `values`, a JSON list
    kIgnored,  // of any value
  };
  static constexpr uint8_t kChat = 1, kCompletions = 2, kBoth = 3;

  std::string_view name;
  uint8_t endpoints = kBoth;
  Kind kind = Kind::kOther;
  double least = 0, most = 0;
  bool is_above_least = false;  // of a number: `least` itself is refused
  std::string_view values{};
  std::string_view absent{};  // what holds without it
  std::string_view notes{};

  bool IsOf(Endpoint endpoint) const {
    return (endpoints & (endpoint == Endpoint::kChat ? kChat : kCompletions)) != 0;
  }
};

// Every parameter of both endpoints, as the page lists them.
std::span<const Parameter> Parameters();
// Null: the endpoint has no such parameter.
const Parameter* FindParameter(std::string_view name, Endpoint endpoint);

// What a value must be, for messages: "an integer between 1 and 5".
std::string WantedOf(const Parameter& parameter);

// The table of docs/openai-api.md.
std::string ParameterTable();

inline constexpr int kMaxPrompts = 128;
inline constexpr int kMaxChoices = 128;  // of one request, over all prompts
inline constexpr int kMaxStops = 16;
inline constexpr size_t kMaxStopBytes = 4096;
inline constexpr int kMaxStopTokens = 64;
inline constexpr int kMaxBiases = 1024;
inline constexpr int64_t kMostTokens = int64_t{1} << 31;

}  // namespace janus::gateway
