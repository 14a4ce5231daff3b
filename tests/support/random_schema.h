#pragma once

#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <string>

namespace janus::text {

using Json = nlohmann::ordered_json;

// A random JSON schema of few kinds, and a check of values against such schemas that shares nothing
// with the compiler of grammars.
class RandomSchema {
 public:
  explicit RandomSchema(uint64_t seed) : random_(seed) {}

  Json Draw(int depth = 0) {
    switch (Below(depth < 3 ? 9 : 6)) {
      case 0:
        return {{"type", "integer"}, {"minimum", -Number(50)}, {"maximum", Number(5000)}};
      case 1:
        return {{"type", "boolean"}};
      case 2:
        return {{"enum", Json::array({"red", "gr\"een", "", 7, nullptr, "\u00e9\U0001F600"})}};
      case 3: {
        const int least = Number(3);
        return {{"type", "string"}, {"minLength", least}, {"maxLength", least + Number(6)}};
      }
      case 4:
        return {{"type", "string"}, {"pattern", "^[A-F]{2}-[0-9]{1,3}$"}};
      case 5:
        return {{"const", Json::array({1, "two", Json::object({{"k", false}})})}};
      case 6: {
        const int least = Number(2);
        return {{"type", "array"},
                {"items", Draw(depth + 1)},
                {"minItems", least},
                {"maxItems", least + Number(3)}};
      }
      case 7:
        return {{"anyOf", Json::array({Draw(depth + 1), Draw(depth + 1)})}};
      default:
        return Object(depth);
    }
  }

 private:
  int Below(int n) { return std::uniform_int_distribution(0, n - 1)(random_); }
  int Number(int most) { return Below(most + 1); }

  Json Object(int depth) {
    Json properties = Json::object(), required = Json::array();
    for (int i = 0, n = 1 + Below(4); i < n; ++i) {
      const std::string name = std::string("key ") + static_cast<char>('a' + i);
      properties[name] = Draw(depth + 1);
      if (Below(2) == 0) required.push_back(name);
    }
    return {{"type", "object"},
            {"properties", std::move(properties)},
            {"required", std::move(required)},
            {"additionalProperties", false}};
  }

  std::mt19937_64 random_;
};

inline size_t Characters(const std::string& text) {
  size_t n = 0;
  for (const char c : text) n += (c & 0xC0) != 0x80 ? 1 : 0;
  return n;
}

inline bool Fits(const Json& schema, const Json& value) {
  if (schema.contains("const")) return value == schema["const"];
  if (schema.contains("enum")) {
    for (const Json& one : schema["enum"]) {
      if (one == value) return true;
    }
    return false;
  }
  if (schema.contains("anyOf")) {
    for (const Json& one : schema["anyOf"]) {
      if (Fits(one, value)) return true;
    }
    return false;
  }
  const auto type = schema["type"].get<std::string>();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") {
    return value.is_number() && value >= schema["minimum"] && value <= schema["maximum"] &&
           value.get<double>() == static_cast<double>(value.get<int64_t>());
  }
  if (type == "string") {
    if (!value.is_string()) return false;
    const auto text = value.get<std::string>();
    if (schema.contains("pattern")) {
      return std::regex_search(text, std::regex(schema["pattern"].get<std::string>()));
    }
    return Characters(text) >= schema["minLength"] && Characters(text) <= schema["maxLength"];
  }
  if (type == "array") {
    if (!value.is_array() || value.size() < schema["minItems"] ||
        value.size() > schema["maxItems"]) {
      return false;
    }
    for (const Json& one : value) {
      if (!Fits(schema["items"], one)) return false;
    }
    return true;
  }
  if (!value.is_object()) return false;
  for (const Json& name : schema["required"]) {
    if (!value.contains(name.get<std::string>())) return false;
  }
  for (const auto& [name, one] : value.items()) {
    if (!schema["properties"].contains(name) || !Fits(schema["properties"][name], one)) {
      return false;
    }
  }
  return true;
}

}  // namespace janus::text
