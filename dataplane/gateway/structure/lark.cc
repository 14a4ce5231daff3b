#include "dataplane/gateway/structure/lark.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

namespace janus::gateway {

namespace {

using Json = nlohmann::ordered_json;

// Markers that models write and that some tokenizers make special tokens.
constexpr auto kMarkers = std::to_array<std::string_view>({"<think>",
                                                           "</think>",
                                                           "<tool_call>",
                                                           "</tool_call>",
                                                           "<arg_key>",
                                                           "</arg_key>",
                                                           "<arg_value>",
                                                           "</arg_value>",
                                                           "<｜tool▁calls▁begin｜>",
                                                           "<｜tool▁calls▁end｜>",
                                                           "<｜tool▁call▁begin｜>",
                                                           "<｜tool▁call▁end｜>",
                                                           "<｜tool▁sep｜>",
                                                           "<|tool_calls_section_begin|>",
                                                           "<|tool_calls_section_end|>",
                                                           "<|tool_call_begin|>",
                                                           "<|tool_call_end|>",
                                                           "<|tool_call_argument_begin|>",
                                                           "[TOOL_CALLS]",
                                                           "[ARGS]",
                                                           "<|python_tag|>",
                                                           "<|python_start|>",
                                                           "<|python_end|>",
                                                           "<|channel|>",
                                                           "<|message|>",
                                                           "<|constrain|>",
                                                           "<|start|>",
                                                           "<|end|>",
                                                           "<|call|>",
                                                           "<|return|>"});

// The marker at the beginning of the text, if it is a special token.
struct Special {
  size_t size = 0;
  int32_t id = 0;
};
std::optional<Special> SpecialAt(const text::Tokenizer& tokenizer, std::string_view text) {
  for (const std::string_view marker : kMarkers) {
    if (!text.starts_with(marker)) continue;
    const Result<int32_t> id = tokenizer.TokenToId(marker);
    if (id.ok() && tokenizer.IsSpecial(*id)) return Special{marker.size(), *id};
  }
  return std::nullopt;
}

void AddTo(std::string* sequence, const std::string& part) {
  *sequence += (sequence->empty() ? "" : " ") + part;
}

// GBNF, one rule after another.
class Gbnf {
 public:
  explicit Gbnf(std::string_view text) : text_(text) {}

  Result<std::string> ToLark() {
    for (SkipSpace(true); !AtEnd(); SkipSpace(true)) JANUS_RETURN_IF_ERROR(Rule());
    if (out_.empty()) return InvalidArgument("the grammar has no rule");
    return "start: " + NameOf("root") + "\n" + out_;
  }

 private:
  bool AtEnd() const { return at_ >= text_.size(); }
  char Here() const { return AtEnd() ? '\0' : text_[at_]; }
  bool IsDefinition() const { return text_.substr(at_).starts_with("::="); }

  static bool IsNameChar(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  }
  // Lark's rules are in small letters; the prefix keeps names apart from those of other grammars.
  static std::string NameOf(std::string_view name) {
    std::string out = "r_";
    for (const char c : name) {
      if (c == '-') {
        out += "_h";
      } else if (c == '_') {
        out += "__";
      } else if (c >= 'A' && c <= 'Z') {
        out += std::string("_u") + static_cast<char>(c - 'A' + 'a');
      } else {
        out += c;
      }
    }
    return out;
  }

  void SkipSpace(bool lines) {
    while (!AtEnd()) {
      if (Here() == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (Here() == ' ' || Here() == '\t' || Here() == '\r' || (lines && Here() == '\n')) {
        ++at_;
      } else {
        return;
      }
    }
  }

  Status Wrong(std::string_view what) const {
    const auto line =
        1 + std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(at_), '\n');
    return InvalidArgument("line " + std::to_string(line) +
                           " of the grammar: " + std::string(what));
  }

  std::string_view Name() {
    const size_t first = at_;
    while (!AtEnd() && IsNameChar(Here())) ++at_;
    return text_.substr(first, at_ - first);
  }

  Status Rule() {
    const std::string_view name = Name();
    if (name.empty()) return Wrong("a rule begins with its name");
    SkipSpace(true);
    if (!IsDefinition()) return Wrong("'::=' is missing after the name of a rule");
    at_ += 3;
    out_ += NameOf(name) + ": ";
    JANUS_RETURN_IF_ERROR(Alternatives(false));
    out_ += "\n";
    return OkStatus();
  }

  // A line that begins with '|' goes on with the rule.
  bool EndsRule() {
    const size_t before = at_;
    SkipSpace(true);
    if (Here() == '|') return false;
    at_ = before;
    return true;
  }

  Status Alternatives(bool in_group) {
    if (++depth_ > kMostDepth) return Wrong("groups are nested too deeply");
    bool has_item = false;
    while (true) {
      SkipSpace(in_group);
      const char c = Here();
      if (c == ')' && in_group) break;
      if (AtEnd() || (c == '\n' && (in_group || EndsRule()))) break;
      if (Here() == '|') {
        out_ += has_item ? "| " : "\"\" | ";
        ++at_;
        has_item = false;
        SkipSpace(true);
        continue;
      }
      JANUS_RETURN_IF_ERROR(Item());
      has_item = true;
    }
    if (!has_item) out_ += "\"\" ";
    --depth_;
    return OkStatus();
  }

  Status Item() {
    const char c = Here();
    if (c == '"') {
      JANUS_RETURN_IF_ERROR(String());
    } else if (c == '[') {
      JANUS_RETURN_IF_ERROR(Class());
    } else if (c == '.') {
      ++at_;
      out_ += "/(.|\\n)/";
    } else if (c == '(') {
      ++at_;
      out_ += "(";
      JANUS_RETURN_IF_ERROR(Alternatives(true));
      if (Here() != ')') return Wrong("')' is missing");
      ++at_;
      out_ += ")";
    } else if (IsNameChar(c)) {
      out_ += NameOf(Name());
    } else {
      return Wrong("'" + std::string(1, c) + "' is not expected");
    }
    return Repetition();
  }

  Status Repetition() {
    if (Here() == '*' || Here() == '+' || Here() == '?') {
      out_ += Here();
      ++at_;
    } else if (Here() == '{') {
      const size_t end = text_.find('}', at_);
      const std::string_view counts = text_.substr(at_, end - at_);
      if (end == text_.npos || counts.find_first_not_of("{0123456789, ") != counts.npos) {
        return Wrong("'{' begins a repetition such as {2}, {2,} or {2,5}");
      }
      out_ += std::string(counts) + "}";
      at_ = end + 1;
    }
    out_ += " ";
    return OkStatus();
  }

  Status String() {
    std::string value;
    for (++at_; Here() != '"'; ++at_) {
      if (AtEnd() || Here() == '\n') return Wrong("'\"' is missing at the end of a string");
      value += Here();
      if (Here() != '\\') continue;
      ++at_;
      // JSON has no \x41; the code points are the same.
      if (Here() == 'x') {
        value += "u00";
      } else if (Here() == '\'' || Here() == '[' || Here() == ']' || Here() == '-') {
        value.back() = Here();
      } else {
        value += Here();
      }
    }
    ++at_;
    const Json parsed = Json::parse("\"" + value + "\"", nullptr, false);
    if (!parsed.is_string()) return Wrong("a string has an unknown escape");
    out_ += LarkString(parsed.get<std::string>());
    return OkStatus();
  }

  // A class of characters is one in regular expressions too.
  Status Class() {
    std::string value = "[";
    for (++at_; Here() != ']'; ++at_) {
      if (AtEnd() || Here() == '\n') return Wrong("']' is missing at the end of a class");
      if (Here() == '\\') {
        value += Here();
        ++at_;
        value += Here();
      } else if (Here() == '/') {
        value += "\\/";
      } else if (Here() == '[' || Here() == '&' || Here() == '~') {
        value += "\\";
        value += Here();
      } else {
        value += Here();
      }
    }
    ++at_;
    out_ += "/" + value + "]/";
    return OkStatus();
  }

  static constexpr int kMostDepth = 64;
  const std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  std::string out_;
};

}  // namespace

std::string LarkString(std::string_view text) {
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string LarkText(const text::Tokenizer& tokenizer, std::string_view text) {
  std::string out, plain;
  const auto flush = [&] {
    if (!plain.empty()) AddTo(&out, LarkString(plain));
    plain.clear();
  };
  while (!text.empty()) {
    if (const auto special = SpecialAt(tokenizer, text)) {
      flush();
      AddTo(&out, "<[" + std::to_string(special->id) + "]>");
      text.remove_prefix(special->size);
      continue;
    }
    plain += text.front();
    text.remove_prefix(1);
  }
  flush();
  return out.empty() ? "\"\"" : out;
}

Result<std::string> LarkRegex(std::string_view regex) {
  // All of the answer must match, so the outer anchors add nothing.
  if (regex.starts_with('^')) regex.remove_prefix(1);
  if (regex.ends_with('$') && !regex.ends_with("\\$")) regex.remove_suffix(1);
  if (regex.empty()) return InvalidArgument("the regular expression is empty");
  std::string out = "/";
  bool is_escaped = false;
  for (const char c : regex) {
    if (c == '/' && !is_escaped) out += '\\';
    if (c == '\n') {
      out += is_escaped ? "n" : "\\n";
    } else if (c == '\r') {
      out += is_escaped ? "r" : "\\r";
    } else {
      out += c;
    }
    is_escaped = c == '\\' && !is_escaped;
  }
  if (is_escaped) return InvalidArgument("the regular expression ends with a backslash");
  return out + "/";
}

Result<std::string> LarkOfGbnf(std::string_view gbnf) {
  return Gbnf(gbnf).ToLark();
}

}  // namespace janus::gateway
