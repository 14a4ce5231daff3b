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

// YAML allows ".5", "+1.5" and "1." where JSON does not; what JSON allows stays as it was written.
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

Result<Node> ParseJson(std::string_view text, std::string_view what, const JsonPart& part) {
  JsonReader reader(text, part);
  Node root;
  if (!reader.Read(root)) return InvalidArgument(std::string(what) + ": " + reader.error());
  return root;
}

std::string WriteJson(const Node& root) {
  std::string out;
  Write(root, out);
  return out;
}

}  // namespace janus::control
