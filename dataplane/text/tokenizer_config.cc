#include "dataplane/text/tokenizer_config.h"

#include <nlohmann/json.hpp>

namespace janus::text {

namespace {

using nlohmann::json;

Status Wrong(std::string_view name, std::string_view what) {
  return InvalidArgument(std::string(name) + ": " + std::string(what));
}

Status ReadChatTemplates(const json& value, std::string_view name, TokenizerConfig* config) {
  if (value.is_null()) return OkStatus();
  if (value.is_string()) {
    config->chat_templates["default"] = value.get<std::string>();
    return OkStatus();
  }
  if (!value.is_array()) {
    return Wrong(name, "chat_template: want a string or a list of {name, template}");
  }
  for (const json& entry : value) {
    if (!entry.is_object() || !entry.contains("name") || !entry.contains("template") ||
        !entry["name"].is_string() || !entry["template"].is_string()) {
      return Wrong(name, "chat_template: an entry is not {name, template} of two strings");
    }
    config->chat_templates[entry["name"].get<std::string>()] = entry["template"].get<std::string>();
  }
  return OkStatus();
}

// A null or absent token is undefined in templates; some old files write false for null.
std::optional<std::string> SpecialToken(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object()) {
    const auto content = value.find("content");
    if (content != value.end() && content->is_string()) return content->get<std::string>();
  }
  return std::nullopt;
}

}  // namespace

Result<TokenizerConfig> ParseTokenizerConfig(std::string_view text, std::string_view name) {
  json root;
  try {
    root = json::parse(text);
  } catch (const json::exception& e) {
    return Wrong(name, std::string("not JSON: ") + e.what());
  }
  if (!root.is_object()) return Wrong(name, "not a JSON object");
  TokenizerConfig config;
  for (const auto& [key, value] : root.items()) {
    if (!key.ends_with("_token")) continue;
    if (const auto token = SpecialToken(value)) {
      config.special_tokens[key] = *token;
    } else if (value.is_number() || value.is_array() || value.is_object()) {
      return Wrong(name, key + ": want a string or an object with a string `content`");
    }
  }
  if (const auto found = root.find("chat_template"); found != root.end()) {
    JANUS_RETURN_IF_ERROR(ReadChatTemplates(*found, name, &config));
  }
  return config;
}

}  // namespace janus::text
