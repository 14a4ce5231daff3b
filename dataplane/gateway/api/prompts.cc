#include "dataplane/gateway/api/prompts.h"

namespace janus::gateway {

std::vector<int32_t> ReadTokenIds(const Json& list, std::string_view name) {
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const Json& id : list) {
    if (!id.is_number_integer() || (id.is_number_unsigned() && id.get<uint64_t>() > INT32_MAX) ||
        id.get<int64_t>() < 0) {
      Refuse(name, "made of token ids (integers, 0 or more)", id);
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

void ReadPrompts(Fields& fields, CompletionRequest* request) {
  constexpr std::string_view kWanted =
      "a string, a list of token ids, or a list of at most 128 of either";
  const Json* value = fields.Find("prompt");
  if (!value) throw Refused{InvalidParameter("prompt", "'prompt' is missing")};
  if (value->is_string()) {
    request->prompts.emplace_back(value->get<std::string>());
    return;
  }
  if (!value->is_array()) Refuse("prompt", kWanted, *value);
  if (value->empty()) throw Refused{InvalidParameter("prompt", "'prompt' is an empty list")};
  if (value->front().is_number()) {
    request->prompts.emplace_back(ReadTokenIds(*value, "prompt"));
    return;
  }
  if (value->size() > static_cast<size_t>(kMaxPrompts)) Refuse("prompt", kWanted, *value);
  for (size_t i = 0; i < value->size(); ++i) {
    const Json& prompt = (*value)[i];
    const std::string name = "prompt[" + std::to_string(i) + "]";
    if (prompt.is_string()) {
      request->prompts.emplace_back(prompt.get<std::string>());
    } else if (prompt.is_array() && !prompt.empty()) {
      request->prompts.emplace_back(ReadTokenIds(prompt, name));
    } else {
      Refuse(name, "a string or a list of token ids, not empty", prompt);
    }
  }
}

}  // namespace janus::gateway
