#include "operator/api/json.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "operator/api/json_reader.h"

namespace janus::control {
namespace {

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

// YAML allows ".5", "+1.5" and "1.", JSON does not. A valid JSON number keeps its text.
void WriteFloat(const std::string& text, std::string& out) {
  if (ParseJson(text, "number").ok()) {
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

// `indent`: spaces before the content of `node`, two more per level; negative: no line breaks.
void Write(const Node& node, int indent, std::string& out) {
  const auto begin_line = [&](int spaces) {
    if (indent < 0) return;
    out += '\n';
    out.append(static_cast<size_t>(spaces), ' ');
  };
  char separator = 0;
  const auto separate = [&](char first) {
    out += separator == 0 ? first : separator;
    separator = ',';
    begin_line(indent);
  };
  const auto close = [&](bool is_empty, const char* empty, char last) {
    if (is_empty) {
      out += empty;
    } else {
      begin_line(indent - 2);
      out += last;
    }
  };
  const int below = indent < 0 ? indent : indent + 2;
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
        Write(item, below, out);
      }
      return close(node.items.empty(), "[]", ']');
    case Node::Kind::kMap:
      for (const auto& [name, value] : node.fields) {
        separate('{');
        WriteString(name, out);
        out += indent < 0 ? ":" : ": ";
        Write(value, below, out);
      }
      return close(node.fields.empty(), "{}", '}');
  }
}

}  // namespace

Result<Node> ParseJson(std::string_view text, std::string_view what, const JsonPart& part) {
  JsonReader reader(text, part);
  Node root;
  if (!reader.Read(root)) return InvalidArgument(std::string(what) + ": " + reader.error());
  return root;
}

std::string WriteJson(const Node& root) {
  std::string out;
  Write(root, -1, out);
  return out;
}

std::string WriteJsonLines(const Node& root) {
  std::string out;
  Write(root, 2, out);
  return out + "\n";
}

}  // namespace janus::control
