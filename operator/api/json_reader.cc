#include "operator/api/json_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "common/utf8.h"

namespace janus::control {
namespace {

// Bytes that end a run of plain text inside a string.
constexpr std::array<bool, 256> kEndsRun = [] {
  std::array<bool, 256> out{};
  for (int c = 0; c < 0x20; ++c) out[c] = true;
  out['"'] = out['\\'] = true;
  return out;
}();

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

void AppendUtf8(uint32_t point, std::string& out) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0 | (point >> 6));
    put(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    put(0xE0 | (point >> 12));
    put(0x80 | ((point >> 6) & 0x3F));
    put(0x80 | (point & 0x3F));
  } else {
    put(0xF0 | (point >> 18));
    put(0x80 | ((point >> 12) & 0x3F));
    put(0x80 | ((point >> 6) & 0x3F));
    put(0x80 | (point & 0x3F));
  }
}

// A name that occurs twice; empty: none.
std::string RepeatedName(const Node& map) {
  constexpr size_t kFew = 12;
  const std::vector<NodeField>& fields = map.fields;
  if (fields.size() <= kFew) {
    for (size_t i = 1; i < fields.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (fields[i].name == fields[j].name) return fields[i].name;
      }
    }
    return std::string();
  }
  std::vector<std::string_view> names;
  names.reserve(fields.size());
  for (const NodeField& field : fields) names.push_back(field.name);
  std::sort(names.begin(), names.end());
  const auto found = std::adjacent_find(names.begin(), names.end());
  return found == names.end() ? std::string() : std::string(*found);
}

}  // namespace

bool JsonReader::Fail(std::string_view why) {
  if (error_.empty()) error_ = "byte " + std::to_string(at_ + 1) + ": " + std::string(why);
  return false;
}

void JsonReader::Space() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
    ++at_;
  }
}

bool JsonReader::Take(char c) {
  if (at_ >= text_.size() || text_[at_] != c) {
    return Fail(std::string("syntax error; expected '") + c + "'");
  }
  ++at_;
  return true;
}

bool JsonReader::Enter() {
  ++at_;
  return ++depth_ <= kMaxDepth || Fail("nested deeper than 200 levels");
}

bool JsonReader::Next(char close, bool& is_first) {
  Space();
  if (Peek() == close) {
    ++at_;
    --depth_;
    return false;
  }
  if (!std::exchange(is_first, false)) {
    if (!Take(',')) return false;
    Space();
  }
  return true;
}

bool JsonReader::Read(Node& out) {
  Space();
  if (!Value(out, nullptr)) return false;
  Space();
  return at_ == text_.size() || Fail("syntax error; something follows the value");
}

bool JsonReader::Value(Node& out, const Fields* kept) {
  if (++values_ > kMaxValues) return Fail("more than 4,000,000 values");
  switch (Peek()) {
    case '{':
      return Object(out, kept);
    case '[':
      return List(out, kept);
    case '"':
      out.kind = Node::Kind::kString;
      return String(out.text);
    case 't':
    case 'f':
      out = Node::Bool(Peek() == 't');
      return Literal(out.text);
    case 'n':
      return Literal("null");
    default:
      return Number(out);
  }
}

bool JsonReader::Object(Node& out, const Fields* kept) {
  if (!Enter()) return false;
  const bool is_outermost = depth_ == 1;
  out.kind = Node::Kind::kMap;
  std::string name;
  for (bool is_first = true; Next('}', is_first);) {
    name.clear();
    if (!String(name)) return false;
    Space();
    if (!Take(':')) return false;
    Space();
    const bool is_part = is_outermost && part_.keep != nullptr && name == part_.field;
    if (!Field(out, name, is_part ? &part_.keep->fields() : kept)) return false;
  }
  if (!error_.empty()) return false;
  const std::string repeated = RepeatedName(out);
  return repeated.empty() || Fail("'" + repeated + "' is there twice in one object");
}

bool JsonReader::Field(Node& out, const std::string& name, const Fields* kept) {
  const bool is_part = depth_ == 1 && part_.keep != nullptr;
  // At the outermost level `kept` applies to the field's value, below to this object's fields.
  if (kept == nullptr || is_part) return Value(out.Add(name, Node()), kept);
  const auto found = std::find_if(kept->begin(), kept->end(),
                                  [&](const FieldFilter::Field& f) { return f.name == name; });
  if (found == kept->end()) return Skip();
  return Value(out.Add(name, Node()), found->fields.empty() ? nullptr : &found->fields);
}

bool JsonReader::List(Node& out, const Fields* kept) {
  if (!Enter()) return false;
  out.kind = Node::Kind::kList;
  for (bool is_first = true; Next(']', is_first);) {
    if (!Value(out.items.emplace_back(), kept)) return false;
  }
  return error_.empty();
}

bool JsonReader::Literal(std::string_view word) {
  if (text_.substr(at_, word.size()) != word) return Fail("syntax error; no value");
  at_ += word.size();
  return true;
}

bool JsonReader::Number(Node& out) {
  const size_t begin = at_;
  const auto digits = [&] {
    const size_t first = at_;
    while (IsDigit(Peek())) ++at_;
    return at_ > first;
  };
  if (Peek() == '-') ++at_;
  if (Peek() == '0') {
    ++at_;
  } else if (!digits()) {
    return Fail("syntax error; no value");
  }
  bool is_integer = true;
  if (Peek() == '.') {
    is_integer = false;
    ++at_;
    if (!digits()) return Fail("syntax error; a digit is missing");
  }
  if (Peek() == 'e' || Peek() == 'E') {
    is_integer = false;
    ++at_;
    if (Peek() == '+' || Peek() == '-') ++at_;
    if (!digits()) return Fail("syntax error; a digit is missing");
  }
  const std::string_view written = text_.substr(begin, at_ - begin);
  int64_t value = 0;
  const auto read = std::from_chars(written.data(), written.data() + written.size(), value);
  if (is_integer && read.ec == std::errc()) {
    out = Node::Integer(value);
    return true;
  }
  out = Node::String(written);
  out.kind = Node::Kind::kFloat;
  return std::isfinite(std::strtod(out.text.c_str(), nullptr)) || Fail("a number too large");
}

bool JsonReader::String(std::string& out) {
  if (!Take('"')) return false;
  for (;;) {
    const size_t begin = at_;
    while (at_ < text_.size() && !kEndsRun[static_cast<unsigned char>(text_[at_])]) ++at_;
    const std::string_view run = text_.substr(begin, at_ - begin);
    if (const size_t broken = FindBrokenUtf8(run); broken != run.npos) {
      at_ = begin + broken;
      return Fail("no UTF-8");
    }
    out += run;
    if (Peek() == '"') {
      ++at_;
      return true;
    }
    if (Peek() != '\\') return Fail("syntax error; a string without an end");
    if (!Escape(out)) return false;
  }
}

bool JsonReader::CodeUnit(unsigned& out) {
  const std::string_view digits = text_.substr(std::min(at_, text_.size()), 4);
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), out, 16);
  if (digits.size() != 4 || digits[0] == '-' || read.ptr != digits.data() + 4) {
    return Fail("syntax error; \\u and four digits");
  }
  at_ += 4;
  return true;
}

bool JsonReader::Escape(std::string& out) {
  ++at_;
  const char kind = Peek();
  ++at_;
  switch (kind) {
    case '"':
    case '\\':
    case '/':
      out += kind;
      return true;
    case 'b':
      out += '\b';
      return true;
    case 'f':
      out += '\f';
      return true;
    case 'n':
      out += '\n';
      return true;
    case 'r':
      out += '\r';
      return true;
    case 't':
      out += '\t';
      return true;
    case 'u':
      break;
    default:
      return Fail("syntax error; no such escape");
  }
  unsigned first = 0;
  if (!CodeUnit(first)) return false;
  if (first < 0xD800 || first > 0xDFFF) {
    AppendUtf8(first, out);
    return true;
  }
  unsigned second = 0;
  if (first > 0xDBFF || text_.substr(at_, 2) != "\\u") return Fail("half a surrogate pair");
  at_ += 2;
  if (!CodeUnit(second)) return false;
  if (second < 0xDC00 || second > 0xDFFF) return Fail("half a surrogate pair");
  AppendUtf8(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00), out);
  return true;
}

bool JsonReader::SkipString() {
  if (!Take('"')) return false;
  for (;;) {
    while (at_ < text_.size() && !kEndsRun[static_cast<unsigned char>(text_[at_])]) ++at_;
    if (Peek() == '"') {
      ++at_;
      return true;
    }
    if (Peek() != '\\') return Fail("syntax error; a string without an end");
    at_ = std::min(at_ + 2, text_.size());
  }
}

bool JsonReader::Skip() {
  switch (Peek()) {
    case '{':
      if (!Enter()) return false;
      for (bool is_first = true; Next('}', is_first);) {
        if (!SkipString()) return false;
        Space();
        if (!Take(':')) return false;
        Space();
        if (!Skip()) return false;
      }
      return error_.empty();
    case '[':
      if (!Enter()) return false;
      for (bool is_first = true; Next(']', is_first);) {
        if (!Skip()) return false;
      }
      return error_.empty();
    case '"':
      return SkipString();
    case 't':
      return Literal("true");
    case 'f':
      return Literal("false");
    case 'n':
      return Literal("null");
    default: {
      Node number;
      return Number(number);
    }
  }
}

}  // namespace janus::control
