#include "operator/api/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace janus::control {
namespace {

constexpr size_t kMaxDepth = 200;  // trees are destroyed recursively
constexpr size_t kMaxValues = 4'000'000;

// Builds the tree as the parser walks the text: no second tree in between.
class TreeBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Put(Node()) != nullptr; }
  bool boolean(bool value) override { return Put(Node::Bool(value)) != nullptr; }
  bool number_integer(number_integer_t value) override {
    return Put(Node::Integer(value)) != nullptr;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (std::in_range<int64_t>(value)) return number_integer(static_cast<int64_t>(value));
    return number_float(0, std::to_string(value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    Node node;
    node.kind = Node::Kind::kFloat;
    node.text = text;
    return Put(std::move(node)) != nullptr;
  }
  bool string(string_t& value) override {
    Node node;
    node.kind = Node::Kind::kString;
    node.text = std::move(value);
    return Put(std::move(node)) != nullptr;
  }
  bool binary(binary_t&) override { return Fail("binary data"); }
  bool start_object(size_t) override { return Open(Node::Map()); }
  bool key(string_t& name) override {
    name_ = std::move(name);
    return true;
  }
  bool end_object() override {
    const std::string repeated = RepeatedName(*open_.back());
    open_.pop_back();
    return repeated.empty() || Fail("'" + repeated + "' is there twice in one object");
  }
  bool start_array(size_t) override { return Open(Node::List()); }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception& e) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..."
    std::string_view said = e.what();
    if (const size_t colon = said.find(": "); colon != said.npos) said.remove_prefix(colon + 2);
    return Fail("byte " + std::to_string(at) + ": " + std::string(said));
  }

  Node root;
  std::string error;

 private:
  // Where a value goes; null when there are too many. An open map or list does not grow while a
  // child of it is open, so the pointers in open_ stay.
  Node* Put(Node value) {
    if (++values_ > kMaxValues) {
      Fail("more than 4,000,000 values");
      return nullptr;
    }
    if (open_.empty()) {
      root = std::move(value);
      return &root;
    }
    Node& parent = *open_.back();
    if (parent.kind == Node::Kind::kMap) return &parent.Add(name_, std::move(value));
    return &parent.items.emplace_back(std::move(value));
  }
  bool Open(Node value) {
    if (open_.size() == kMaxDepth) return Fail("nested deeper than 200 levels");
    Node* const at = Put(std::move(value));
    if (at != nullptr) open_.push_back(at);
    return at != nullptr;
  }
  bool Fail(std::string message) {
    error = std::move(message);
    return false;
  }
  static std::string RepeatedName(const Node& map) {
    std::vector<std::string_view> names;
    names.reserve(map.fields.size());
    for (const NodeField& field : map.fields) names.push_back(field.name);
    std::sort(names.begin(), names.end());
    const auto found = std::adjacent_find(names.begin(), names.end());
    return found == names.end() ? std::string() : std::string(*found);
  }

  std::vector<Node*> open_;
  std::string name_;  // of the value that comes next
  size_t values_ = 0;
};

void WriteString(std::string_view text, std::string& out) {
  constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += kHex[static_cast<unsigned char>(c) >> 4];
      out += kHex[static_cast<unsigned char>(c) & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

// YAML allows ".5", "+1.5" and "1." where JSON does not; what JSON allows stays as it was written.
void WriteFloat(const std::string& text, std::string& out) {
  if (nlohmann::json::accept(text)) {
    out += text;
    return;
  }
  const double value = std::strtod(text.c_str(), nullptr);
  if (!std::isfinite(value) || text.find_first_of("0123456789") == std::string::npos) {
    out += "null";
    return;
  }
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

void Write(const Node& node, std::string& out) {
  char separator = 0;
  const auto separate = [&](char first) {
    out += separator == 0 ? first : separator;
    separator = ',';
  };
  switch (node.kind) {
    case Node::Kind::kNull:
      out += "null";
      return;
    case Node::Kind::kBool:
      out += node.boolean ? "true" : "false";
      return;
    case Node::Kind::kInteger:
      out += std::to_string(node.integer);
      return;
    case Node::Kind::kFloat:
      return WriteFloat(node.text, out);
    case Node::Kind::kString:
      return WriteString(node.text, out);
    case Node::Kind::kList:
      for (const Node& item : node.items) {
        separate('[');
        Write(item, out);
      }
      out += node.items.empty() ? "[]" : "]";
      return;
    case Node::Kind::kMap:
      for (const auto& [name, value] : node.fields) {
        separate('{');
        WriteString(name, out);
        out += ':';
        Write(value, out);
      }
      out += node.fields.empty() ? "{}" : "}";
      return;
  }
}

}  // namespace

Result<Node> ParseJson(std::string_view text, std::string_view what) {
  TreeBuilder builder;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    return InvalidArgument(std::string(what) + ": " + builder.error);
  }
  return std::move(builder.root);
}

std::string WriteJson(const Node& root) {
  std::string out;
  Write(root, out);
  return out;
}

}  // namespace janus::control
