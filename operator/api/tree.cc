#include "operator/api/tree.h"

#include <algorithm>
#include <utility>

namespace janus::control {

Node::Node() = default;
Node::~Node() = default;
Node::Node(const Node&) = default;
Node::Node(Node&&) noexcept = default;
Node& Node::operator=(const Node&) = default;
Node& Node::operator=(Node&&) noexcept = default;

Node Node::Map() {
  return Of(Kind::kMap);
}

Node Node::List() {
  return Of(Kind::kList);
}

Node Node::Of(Kind kind) {
  Node node;
  node.kind = kind;
  return node;
}

Node Node::String(std::string_view value) {
  Node node = Of(Kind::kString);
  node.text = value;
  return node;
}

Node Node::Integer(int64_t value) {
  Node node = Of(Kind::kInteger);
  node.integer = value;
  node.text = std::to_string(value);
  return node;
}

Node Node::Bool(bool value) {
  Node node = Of(Kind::kBool);
  node.boolean = value;
  node.text = value ? "true" : "false";
  return node;
}

bool operator==(const Node& a, const Node& b) {
  const auto same = [](const NodeField& x, const NodeField& y) {
    return x.name == y.name && x.value == y.value;
  };
  const bool has_text = a.kind == Node::Kind::kInteger || a.kind == Node::Kind::kFloat ||
                        a.kind == Node::Kind::kString;
  return a.kind == b.kind && (!has_text || a.text == b.text) && a.boolean == b.boolean &&
         a.items == b.items &&
         std::equal(a.fields.begin(), a.fields.end(), b.fields.begin(), b.fields.end(), same);
}

const Node* Node::Find(std::string_view name) const {
  for (const auto& [field, value] : fields) {
    if (field == name) return &value;
  }
  return nullptr;
}

Node& Node::Add(std::string_view name, Node value) {
  fields.push_back({std::string(name), std::move(value)});
  return fields.back().value;
}

std::string_view Describe(Node::Kind kind) {
  switch (kind) {
    case Node::Kind::kNull:
      return "empty";
    case Node::Kind::kBool:
      return "a boolean";
    case Node::Kind::kInteger:
      return "an integer";
    case Node::Kind::kFloat:
      return "a number with a fraction";
    case Node::Kind::kString:
      return "a string";
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kMap:
      return "an object";
  }
  return "unknown";
}

bool IsWordOfBoolean(const Node& node) {
  return node.kind == Node::Kind::kBool && !node.text.empty() && node.text != "true" &&
         node.text != "false";
}

std::string DescribeValue(const Node& node) {
  std::string out(Describe(node.kind));
  std::string value = node.text.substr(0, 64);
  if (node.kind == Node::Kind::kString) value = "'" + value + "'";
  if (IsWordOfBoolean(node)) {
    value += std::string(", which YAML reads as ") + (node.boolean ? "true" : "false");
  }
  return value.empty() ? out : out + " (" + value + ")";
}

int LineOf(const Node& root, std::string_view path) {
  const Node* node = &root;
  int line = root.line;
  while (!path.empty()) {
    if (path.front() == '[') {
      const size_t close = path.find(']');
      size_t index = 0;
      for (const char c : path.substr(1, close - 1))
        index = index * 10 + static_cast<size_t>(c - '0');
      if (close == std::string_view::npos || index >= node->items.size()) return line;
      node = &node->items[index];
      path.remove_prefix(close + 1);
    } else {
      if (path.front() == '.') path.remove_prefix(1);
      const size_t end = std::min(path.find('.'), path.find('['));
      node = node->Find(path.substr(0, end));
      if (node == nullptr) return line;
      path.remove_prefix(std::min(end, path.size()));
    }
    if (node->line > 0) line = node->line;
  }
  return line;
}

void AddLines(const Node& root, FieldErrors& errors) {
  for (FieldError& error : errors) {
    if (error.line == 0) error.line = LineOf(root, error.path);
  }
}

std::string JoinErrors(const FieldErrors& errors, size_t most) {
  std::vector<std::pair<std::string, std::string_view>> found;  // paths, message
  for (const FieldError& error : errors) {
    const auto same = std::ranges::find(found, std::string_view(error.message),
                                        &std::pair<std::string, std::string_view>::second);
    if (same == found.end()) {
      found.emplace_back(error.path, error.message);
    } else {
      same->first += ", " + error.path;
    }
  }
  const auto rest = [&](size_t from) {
    return "; and " + std::to_string(found.size() - from) + " more";
  };
  std::string out;
  for (size_t i = 0; i < found.size(); ++i) {
    const auto& [paths, message] = found[i];
    std::string one = i == 0 ? "" : "; ";
    if (found.size() > 1) one += "(" + std::to_string(i + 1) + ") ";
    one += paths + ": " + std::string(message);
    const size_t kept = i + 1 == found.size() ? 0 : rest(i + 1).size();
    if (i > 0 && out.size() + one.size() + kept > most) return out + rest(i);
    out += one;
  }
  return out.substr(0, most);
}

std::string FormatErrors(std::string_view file, const FieldErrors& errors) {
  std::string out;
  for (const FieldError& error : errors) {
    if (!out.empty()) out += '\n';
    out += file;
    if (error.line > 0) out += ":" + std::to_string(error.line);
    out += ": ";
    if (!error.path.empty()) out += error.path + ": ";
    out += error.message;
  }
  return out;
}

}  // namespace janus::control
