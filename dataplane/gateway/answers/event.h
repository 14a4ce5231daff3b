#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

// Events of a text/event-stream.
namespace janus::gateway {

using Json = nlohmann::ordered_json;

// JSON without line feeds. Bytes that are not UTF-8 become U+FFFD.
inline std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// `json` has no line feed.
inline std::string ServerSentEvent(std::string_view json) {
  std::string event = "data: ";
  event += json;
  event += "\n\n";
  return event;
}

// An event with a name.
inline std::string ServerSentEvent(std::string_view name, std::string_view json) {
  std::string event = "event: ";
  event += name;
  event += '\n';
  return event + ServerSentEvent(json);
}

// A comment, which clients skip. It shows that the connection lives although there is no token yet.
inline constexpr std::string_view kStreamComment = ": waiting\n\n";

}  // namespace janus::gateway
