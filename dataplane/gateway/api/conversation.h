#pragma once

#include <map>
#include <string>
#include <string_view>

#include "dataplane/gateway/api/fields.h"

namespace janus::gateway {

// Builds the messages of /v1/chat/completions from the blocks or items of another API, oldest
// first. What one role says in a row becomes one message, because many templates require that roles
// alternate; its texts stay apart as parts. Thread-compatible.
class Conversation {
 public:
  // `role`: system, user or assistant.
  void AddText(std::string_view role, const std::string& text);
  // Of the assistant.
  void AddReasoning(const std::string& text);
  void AddCall(const std::string& id, const std::string& name, const Json& arguments);
  // The result of the call `id`; it is always a message of its own.
  void AddResult(const std::string& id, const std::string& text);

  // The list as a client of /v1/chat/completions would send it.
  Json Take();

 private:
  Json& Last(std::string_view role);

  Json messages_ = Json::array();
  std::map<std::string, std::string> functions_;  // by the id of the call
};

}  // namespace janus::gateway
