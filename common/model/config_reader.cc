#include "common/model/config_reader.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace janus {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxBytes = 16 << 20;

// A short text of the value, for a message.
std::string Show(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

std::string Bounds(int64_t low, int64_t high) {
  return std::to_string(low) + ".." + std::to_string(high);
}

bool IsIntegerIn(const Json& value, int64_t low, int64_t high) {
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    return number <= static_cast<uint64_t>(INT64_MAX) && static_cast<int64_t>(number) >= low &&
           static_cast<int64_t>(number) <= high;
  }
  return value.is_number_integer() && value.get<int64_t>() >= low && value.get<int64_t>() <= high;
}

}  // namespace

struct ConfigReader::Document {
  Json root;
  std::string prefix;                  // of the paths of what was entered
  std::vector<std::string> inherited;  // fields that lie outside of it

  // null: the field is absent or null.
  const Json* Find(std::string_view path) const {
    const Json* const at = FindOrNull(path);
    return at == nullptr || at->is_null() ? nullptr : at;
  }
  const Json* FindOrNull(std::string_view path) const {
    const Json* at = &root;
    while (true) {
      const size_t dot = path.find('.');
      if (!at->is_object()) return nullptr;
      const auto field = at->find(std::string(path.substr(0, dot)));
      if (field == at->end()) return nullptr;
      at = &*field;
      if (dot == std::string_view::npos) return at;
      path.remove_prefix(dot + 1);
    }
  }
};

ConfigReader::ConfigReader(std::unique_ptr<Document> document) : document_(std::move(document)) {}
ConfigReader::~ConfigReader() = default;
ConfigReader::ConfigReader(ConfigReader&&) noexcept = default;
ConfigReader& ConfigReader::operator=(ConfigReader&&) noexcept = default;

Result<ConfigReader> ConfigReader::Parse(std::string_view text) {
  if (text.size() > kMaxBytes)
    return InvalidArgument("larger than 16 MiB; is this the right file?");
  auto document = std::make_unique<Document>();
  try {
    document->root = Json::parse(text);
  } catch (const Json::parse_error& error) {
    return InvalidArgument("not valid JSON at byte " + std::to_string(error.byte) +
                           "; is the file complete?");
  } catch (const Json::exception& error) {
    return InvalidArgument("not valid JSON: " + std::string(error.what()));
  }
  if (!document->root.is_object()) return InvalidArgument("not a JSON object");
  return ConfigReader(std::move(document));
}

bool ConfigReader::Has(std::string_view path) const {
  return document_->Find(path) != nullptr;
}

bool ConfigReader::IsNull(std::string_view path) const {
  const Json* const at = document_->FindOrNull(path);
  return at != nullptr && at->is_null();
}

bool ConfigReader::IsEmpty(std::string_view path) const {
  const Json* const at = document_->Find(path);
  return at == nullptr || ((at->is_object() || at->is_array()) && at->empty());
}

std::string ConfigReader::Shown(std::string_view path) const {
  const Json* value = document_->Find(path);
  return value == nullptr ? "" : Show(*value);
}

int64_t ConfigReader::Integer(std::string_view path, int64_t low, int64_t high) {
  if (!Has(path)) {
    Fail(path, "is missing; want an integer in " + Bounds(low, high));
    return low;
  }
  return IntegerOr(path, low, low, high);
}

int64_t ConfigReader::IntegerOr(std::string_view path, int64_t fallback, int64_t low,
                                int64_t high) {
  const Json* value = document_->Find(path);
  if (value == nullptr) return fallback;
  if (!IsIntegerIn(*value, low, high)) {
    Fail(path, "is " + Show(*value) + "; want an integer in " + Bounds(low, high));
    return low;
  }
  return value->get<int64_t>();
}

double ConfigReader::NumberOr(std::string_view path, double fallback, double low, double high) {
  const Json* value = document_->Find(path);
  if (value == nullptr) return fallback;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= low && number <= high)) {
    Fail(path, "is " + Show(*value) + "; want a number in " + Show(low) + ".." + Show(high));
    return fallback;
  }
  return number;
}

bool ConfigReader::BoolOr(std::string_view path, bool fallback) {
  const Json* value = document_->Find(path);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) {
    Fail(path, "is " + Show(*value) + "; want true or false");
    return fallback;
  }
  return value->get<bool>();
}

std::string ConfigReader::StringOr(std::string_view path, std::string_view fallback) {
  const Json* value = document_->Find(path);
  if (value == nullptr) return std::string(fallback);
  if (!value->is_string()) {
    Fail(path, "is " + Show(*value) + "; want a string");
    return std::string(fallback);
  }
  return value->get<std::string>();
}

std::vector<std::string> ConfigReader::Strings(std::string_view path) {
  const Json* value = document_->Find(path);
  if (value == nullptr) return {};
  std::vector<std::string> out;
  bool strings = value->is_array();
  if (strings) {
    for (const Json& item : *value) {
      strings = strings && item.is_string();
      if (item.is_string()) out.push_back(item.get<std::string>());
    }
  }
  if (!strings) Fail(path, "is " + Show(*value) + "; want a list of strings");
  return out;
}

std::vector<int64_t> ConfigReader::Integers(std::string_view path, int64_t low, int64_t high) {
  const Json* value = document_->Find(path);
  if (value == nullptr) return {};
  std::vector<int64_t> out;
  bool integers = true;
  const auto take = [&](const Json& item) {
    integers = integers && IsIntegerIn(item, low, high);
    if (integers) out.push_back(item.get<int64_t>());
  };
  if (value->is_array()) {
    for (const Json& item : *value) take(item);
  } else {
    take(*value);
  }
  if (!integers) {
    Fail(path,
         "is " + Show(*value) + "; want an integer, or a list of them, in " + Bounds(low, high));
  }
  return out;
}

void ConfigReader::Enter(std::string_view field, const std::vector<std::string>& inherited) {
  const Json* const inner = document_->Find(field);
  if (inner == nullptr || !inner->is_object()) {
    Fail(field, inner == nullptr ? "is missing; want an object" : "is no object");
    return;
  }
  Json entered = *inner;
  for (const std::string& name : inherited) {
    const Json* const outer = document_->Find(name);
    Json& own = entered[name];
    if (outer == nullptr || !own.is_null()) continue;
    own = *outer;
    document_->inherited.push_back(name);
  }
  document_->prefix += std::string(field) + ".";
  document_->root = std::move(entered);
}

void ConfigReader::Fail(std::string_view path, std::string message) {
  if (!status_.ok()) return;
  const std::string_view first = path.substr(0, path.find('.'));
  const bool is_outside = std::find(document_->inherited.begin(), document_->inherited.end(),
                                    first) != document_->inherited.end();
  status_ = InvalidArgument((is_outside ? "" : document_->prefix) + std::string(path) + ": " +
                            std::move(message));
}

}  // namespace janus
