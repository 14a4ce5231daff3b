#include "dataplane/gateway/api/fields.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/check.h"

namespace janus::gateway {

namespace {

constexpr size_t kMaxDepth = 64;
// Limit for all objects together: each new key is compared with those before it.
constexpr int64_t kMostComparisons = 20'000'000;

RequestError Malformed(std::string message) {
  return {400, "invalid_request_error", "malformed_json", "", std::move(message)};
}

// Checks, in one pass before parsing, for shapes that would make later code recurse deeply or run
// long.
void CheckShape(std::string_view text) {
  std::array<int64_t, kMaxDepth + 1> keys{};
  size_t depth = 0;
  int64_t comparisons = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) {
        throw Refused{Malformed("the body nests JSON more than 64 levels deep")};
      }
      keys[depth] = 0;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    } else if (c == ':') {
      comparisons += keys[depth]++;
      if (comparisons > kMostComparisons) {
        throw Refused{Malformed("the body has JSON objects with too many keys (6,000 in one)")};
      }
    }
  }
}

std::string Shown(const Json& value) {
  std::string shown = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (shown.size() > 100) shown = shown.substr(0, 100) + "...";
  return shown;
}

bool IsNeutral(const Parameter& parameter, const Json& value) {
  const Json neutral = Json::parse(parameter.values);
  return std::ranges::find(neutral, value) != neutral.end();
}

[[noreturn]] void RefuseNeutral(const Parameter& parameter) {
  std::string only;
  for (const Json& value : Json::parse(parameter.values)) {
    only += (only.empty() ? "" : " or ") + value.dump();
  }
  std::string advice(parameter.notes);
  if (advice.empty()) advice = only.empty() ? "leave it out" : "leave it out or set it to " + only;
  throw Refused{UnsupportedParameter(
      parameter.name, "'" + std::string(parameter.name) + "' is not supported; " + advice)};
}

const Parameter& RowOf(std::string_view name, Endpoint endpoint) {
  const Parameter* parameter = FindParameter(name, endpoint);
  JANUS_CHECK(parameter != nullptr, "a parameter without a row is read", name);
  return *parameter;
}

}  // namespace

void Refuse(std::string_view param, std::string_view wanted, const Json& got) {
  throw Refused{InvalidParameter(param, "'" + std::string(param) + "' must be " +
                                            std::string(wanted) + ", got " + Shown(got))};
}

Json ParseBody(std::string_view body) {
  CheckShape(body);
  try {
    Json root = Json::parse(body);
    if (!root.is_object()) throw Refused{Malformed("the body must be a JSON object")};
    return root;
  } catch (const Json::exception& e) {
    // The parser's message ends with the last bytes it read, which may be invalid UTF-8; ToJson
    // repairs that.
    throw Refused{Malformed(std::string("the body is not valid JSON: ") + e.what())};
  }
}

const Json* Fields::Find(std::string_view name) {
  seen_.push_back(name);
  const auto found = root_.find(name);
  return found == root_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> Fields::Bool(std::string_view name) {
  const Json* value = Find(name);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) Refuse(name, "true or false", *value);
  return value->get<bool>();
}

std::optional<int64_t> Fields::Integer(std::string_view name) {
  const Json* value = Find(name);
  if (!value) return std::nullopt;
  const Parameter& row = RowOf(name, endpoint_);
  // As a double: 16.0 counts as an integer, and the bounds are far below the exact range of
  // doubles.
  const double number = value->is_number() ? value->get<double>() : 0.5;
  if (number != std::floor(number) || number < row.least || number > row.most) {
    Refuse(name, WantedOf(row), *value);
  }
  return static_cast<int64_t>(number);
}

std::optional<double> Fields::Number(std::string_view name) {
  const Json* value = Find(name);
  if (!value) return std::nullopt;
  const Parameter& row = RowOf(name, endpoint_);
  if (!value->is_number()) Refuse(name, WantedOf(row), *value);
  const auto number = value->get<double>();
  const bool is_low = row.is_above_least ? number <= row.least : number < row.least;
  if (!std::isfinite(number) || is_low || number > row.most) Refuse(name, WantedOf(row), *value);
  return number;
}

std::optional<std::string> Fields::String(std::string_view name) {
  const Json* value = Find(name);
  if (!value) return std::nullopt;
  if (!value->is_string()) Refuse(name, "a string", *value);
  return value->get<std::string>();
}

std::vector<std::string> Fields::Rest(UnknownParameters unknown) const {
  std::vector<std::string> ignored;
  for (const auto& [name, value] : root_.items()) {
    if (value.is_null() || std::ranges::find(seen_, name) != seen_.end()) continue;
    const Parameter* parameter = FindParameter(name, endpoint_);
    if (parameter == nullptr) {
      if (unknown == UnknownParameters::kRefuse) {
        throw Refused{UnsupportedParameter(name, "unknown parameter '" + name + "'")};
      }
      ignored.push_back(name);
      continue;
    }
    if (parameter->kind == Parameter::Kind::kIgnored) continue;
    JANUS_CHECK(parameter->kind == Parameter::Kind::kNeutral, "a parameter is never read", name);
    if (!IsNeutral(*parameter, value)) RefuseNeutral(*parameter);
  }
  return ignored;
}

}  // namespace janus::gateway
