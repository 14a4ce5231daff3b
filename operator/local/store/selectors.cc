#include "operator/local/store/selectors.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "operator/api/metadata_rules.h"

namespace janus::control {
namespace {

const Node* FindDotted(const Node& object, std::string_view path) {
  const Node* node = &object;
  while (node != nullptr && !path.empty()) {
    const size_t dot = std::min(path.find('.'), path.size());
    node = node->Find(path.substr(0, dot));
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return node;
}

// A word is an operator, or ends at one of these. Longer operators of labels come before their
// prefixes.
constexpr std::string_view kSpecial = "=!(),<>";
constexpr std::array<std::string_view, 9> kOperators = {"==", "!=", "=", "!", "(",
                                                        ")",  ",",  "<", ">"};
constexpr std::string_view kSpace = " \t\r\n";

std::optional<int64_t> Number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

// Parses "a=b, c in (d,e), !f, g>1".
class LabelReader {
 public:
  using Requirement = Selector::Requirement;

  explicit LabelReader(std::string_view text) : text_(text), rest_(text) { Next(); }

  Result<std::vector<Requirement>> Read() {
    std::vector<Requirement> out;
    if (token_.empty()) return out;
    while (true) {
      JANUS_ASSIGN_OR_RETURN(Requirement one, ReadOne());
      out.push_back(std::move(one));
      if (token_.empty()) return out;
      if (!Take(",")) return Broken("a comma");
      if (token_ != "!" && !IsWord()) return Broken("a requirement after the comma");
    }
  }

 private:
  using Op = Requirement::Op;

  Result<Requirement> ReadOne() {
    Requirement out;
    const bool is_negated = Take("!");
    JANUS_RETURN_IF_ERROR(TakeWord("a key", out.key));
    if (!IsQualifiedName(out.key)) return Broken("a label's key before this");
    out.op = is_negated ? Op::kAbsent : Op::kPresent;
    if (is_negated || token_.empty() || token_ == ",") return out;
    const bool is_in = Take("in");
    if (is_in || Take("notin")) {
      out.op = is_in ? Op::kIn : Op::kNotIn;
      JANUS_RETURN_IF_ERROR(ReadValues(out.values));
    } else {
      JANUS_RETURN_IF_ERROR(ReadComparison(out));
    }
    for (const std::string& value : out.values) {
      if (!IsLabelValue(value)) return Broken("a label's value before this");
    }
    return out;
  }

  Status ReadComparison(Requirement& out) {
    if (Take("=") || Take("==")) {
      out.op = Op::kIn;
    } else if (Take("!=")) {
      out.op = Op::kNotIn;
    } else if (Take(">")) {
      out.op = Op::kAbove;
    } else if (Take("<")) {
      out.op = Op::kBelow;
    } else {
      return Broken("in, notin, =, ==, !=, >, <");
    }
    std::string& value = out.values.emplace_back();
    if (!token_.empty() && token_ != ",") JANUS_RETURN_IF_ERROR(TakeWord("a value", value));
    const bool is_number = out.op == Op::kAbove || out.op == Op::kBelow;
    if (is_number && !Number(value)) return Broken("an integer before this");
    return OkStatus();
  }

  // Parses "(a,b)". A missing value between commas or brackets is the empty value.
  Status ReadValues(std::vector<std::string>& out) {
    if (!Take("(")) return Broken("(");
    do {
      std::string& value = out.emplace_back();
      if (IsWord()) JANUS_RETURN_IF_ERROR(TakeWord("a value", value));
    } while (Take(","));
    return Take(")") ? OkStatus() : Broken("a comma or )");
  }

  bool IsWord() const { return !token_.empty() && kSpecial.find(token_.front()) == kSpecial.npos; }
  Status TakeWord(std::string_view wanted, std::string& out) {
    if (!IsWord()) return Broken(wanted);
    out = token_;
    Next();
    return OkStatus();
  }
  bool Take(std::string_view token) {
    if (token_ != token) return false;
    Next();
    return true;
  }
  // Reads an operator, or text up to the next operator or space; empty: the end.
  void Next() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(kSpace), rest_.size()));
    size_t size = 0;
    for (const std::string_view one : kOperators) {
      if (size == 0 && rest_.starts_with(one)) size = one.size();
    }
    if (size == 0) {
      size = std::min({rest_.find_first_of(kSpecial), rest_.find_first_of(kSpace), rest_.size()});
    }
    token_ = rest_.substr(0, size);
    rest_.remove_prefix(size);
  }
  Status Broken(std::string_view wanted) const {
    return InvalidArgument("selector '" + std::string(text_.substr(0, 256)) + "': at byte " +
                           std::to_string(text_.size() - rest_.size() - token_.size()) + ": want " +
                           std::string(wanted));
  }

  const std::string_view text_;
  std::string_view rest_;
  std::string_view token_;
};

// Parses "a=b,c!=d": no other operators and no spaces. In values a backslash escapes a comma, a
// backslash or an =.
class FieldReader {
 public:
  using Requirement = Selector::Requirement;

  explicit FieldReader(std::string_view text) : text_(text) {}

  Result<std::vector<Requirement>> Read() const {
    std::vector<Requirement> out;
    for (std::string_view rest = text_; !rest.empty();) {
      size_t end = 0;
      while (end < rest.size() && rest[end] != ',') end += rest[end] == '\\' ? 2 : 1;
      end = std::min(end, rest.size());
      if (end > 0) {
        JANUS_ASSIGN_OR_RETURN(Requirement one, ReadOne(rest.substr(0, end)));
        out.push_back(std::move(one));
      }
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return out;
  }

 private:
  Result<Requirement> ReadOne(std::string_view term) const {
    const size_t at = std::min(term.find('='), term.find("!="));
    if (at == term.npos) return Broken("want field=value or field!=value", term);
    Requirement out;
    out.key = term.substr(0, at);
    term.remove_prefix(at);
    out.op = term.starts_with("!=") ? Requirement::Op::kNotIn : Requirement::Op::kIn;
    term.remove_prefix(term.starts_with("=") && !term.starts_with("==") ? 1 : 2);
    std::string& value = out.values.emplace_back();
    while (!term.empty()) {
      const bool is_escaped = term.front() == '\\';
      if (is_escaped) term.remove_prefix(1);
      const bool is_special =
          !term.empty() && std::string_view("\\,=").find(term.front()) != std::string_view::npos;
      if (is_escaped != is_special) return Broken("a \\ stands before each of \\ , =", term);
      value += term.front();
      term.remove_prefix(1);
    }
    return out;
  }

  Status Broken(std::string_view why, std::string_view where) const {
    return InvalidArgument("invalid field selector '" + std::string(text_.substr(0, 256)) +
                           "': at '" + std::string(where.substr(0, 64)) + "': " + std::string(why));
  }

  const std::string_view text_;
};

Result<Selector> Selector::Parse(const Selection& selection,
                                 std::span<const std::string_view> fields) {
  Selector out;
  out.in_namespace_ = selection.namespace_;
  JANUS_ASSIGN_OR_RETURN(out.labels_, LabelReader(selection.label_selector).Read());
  JANUS_ASSIGN_OR_RETURN(out.fields_, FieldReader(selection.field_selector).Read());
  for (const Requirement& one : out.fields_) {
    const bool is_known = one.key == "metadata.name" || one.key == "metadata.namespace" ||
                          std::find(fields.begin(), fields.end(), one.key) != fields.end();
    if (!is_known) {
      return InvalidArgument("field label not supported: " + one.key.substr(0, 253));
    }
  }
  return out;
}

bool Selector::Holds(const Requirement& requirement, const std::string* value) {
  using Op = Requirement::Op;
  const auto is_one_of = [&] {
    return value != nullptr && std::find(requirement.values.begin(), requirement.values.end(),
                                         *value) != requirement.values.end();
  };
  switch (requirement.op) {
    case Op::kPresent:
      return value != nullptr;
    case Op::kAbsent:
      return value == nullptr;
    case Op::kIn:
      return is_one_of();
    case Op::kNotIn:
      return !is_one_of();
    case Op::kAbove:
    case Op::kBelow:
      break;
  }
  const std::optional<int64_t> is = value == nullptr ? std::nullopt : Number(*value);
  const int64_t bound = Number(requirement.values.front()).value_or(0);
  return is && (requirement.op == Op::kAbove ? *is > bound : *is < bound);
}

bool Selector::Matches(const Node& object) const {
  const std::string empty;
  if (!in_namespace_.empty() && TextAt(object, {"metadata", "namespace"}) != in_namespace_) {
    return false;
  }
  const Node* const labels = FindAt(object, {"metadata", "labels"});
  const bool labels_match =
      std::all_of(labels_.begin(), labels_.end(), [&](const Requirement& one) {
        const Node* const label = labels != nullptr ? labels->Find(one.key) : nullptr;
        return Holds(one, label != nullptr ? &label->text : nullptr);
      });
  return labels_match && std::all_of(fields_.begin(), fields_.end(), [&](const Requirement& one) {
           const Node* const field = FindDotted(object, one.key);
           return Holds(one, field != nullptr ? &field->text : &empty);
         });
}

}  // namespace janus::control
