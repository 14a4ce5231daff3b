#include "operator/local/store/selectors.h"

#include <algorithm>
#include <utility>

namespace janus::control {
namespace {

bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.' || c == '/';
}

const Node* FindDotted(const Node& object, std::string_view path) {
  const Node* node = &object;
  while (node != nullptr && !path.empty()) {
    const size_t dot = std::min(path.find('.'), path.size());
    node = node->Find(path.substr(0, dot));
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return node;
}

}  // namespace

// Reads "a=b, c in (d,e), !f".
class SelectorReader {
 public:
  using Requirement = Selector::Requirement;

  explicit SelectorReader(std::string_view text) : text_(text), rest_(text) {}

  Result<std::vector<Requirement>> Read() {
    std::vector<Requirement> out;
    SkipSpace();
    while (!rest_.empty()) {
      JANUS_ASSIGN_OR_RETURN(Requirement one, ReadOne());
      out.push_back(std::move(one));
      SkipSpace();
      if (rest_.empty()) break;
      if (!Take(",")) return Broken("a comma");
      SkipSpace();
      if (rest_.empty()) return Broken("a requirement after the comma");
    }
    return out;
  }

 private:
  Result<Requirement> ReadOne() {
    Requirement out;
    out.is_negated = Take("!");
    SkipSpace();
    out.key = Word();
    if (out.key.empty()) return Broken("a key");
    if (out.is_negated) return out;
    SkipSpace();
    if (Take("!=")) {
      out.is_negated = true;
    } else if (!Take("==") && !Take("=")) {
      return ReadSet(std::move(out));
    }
    SkipSpace();
    out.has_values = true;
    out.values = {Word()};
    return out;
  }

  Result<Requirement> ReadSet(Requirement out) {
    if (rest_.empty() || rest_.front() == ',') return out;
    const std::string word = Word();
    if (word != "in" && word != "notin") return Broken("=, !=, in or notin");
    out.is_negated = word == "notin";
    out.has_values = true;
    SkipSpace();
    if (!Take("(")) return Broken("(");
    do {
      SkipSpace();
      out.values.push_back(Word());
      SkipSpace();
    } while (Take(","));
    if (!Take(")")) return Broken(")");
    return out;
  }

  Status Broken(std::string_view wanted) const {
    return InvalidArgument("selector '" + std::string(text_.substr(0, 256)) + "': at byte " +
                           std::to_string(text_.size() - rest_.size()) + ": want " +
                           std::string(wanted));
  }
  void SkipSpace() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t'))
      rest_.remove_prefix(1);
  }
  bool Take(std::string_view what) {
    if (!rest_.starts_with(what)) return false;
    rest_.remove_prefix(what.size());
    return true;
  }
  std::string Word() {
    const auto end = std::find_if_not(rest_.begin(), rest_.end(), IsWord);
    std::string word(rest_.begin(), end);
    rest_.remove_prefix(word.size());
    return word;
  }

  const std::string_view text_;
  std::string_view rest_;
};

Result<Selector> Selector::Parse(const Selection& selection,
                                 std::span<const std::string_view> fields) {
  Selector out;
  out.in_namespace_ = selection.namespace_;
  JANUS_ASSIGN_OR_RETURN(out.labels_, SelectorReader(selection.label_selector).Read());
  JANUS_ASSIGN_OR_RETURN(out.fields_, SelectorReader(selection.field_selector).Read());
  for (const Requirement& one : out.fields_) {
    if (one.values.size() != 1) {
      return InvalidArgument("a field selector compares by = or !=: " + one.key);
    }
    const bool is_known = one.key == "metadata.name" || one.key == "metadata.namespace" ||
                          std::find(fields.begin(), fields.end(), one.key) != fields.end();
    if (!is_known) {
      return InvalidArgument("field label not supported: " + one.key.substr(0, 253));
    }
  }
  return out;
}

bool Selector::Holds(const Requirement& requirement, const std::string* value) {
  if (!requirement.has_values) return (value != nullptr) != requirement.is_negated;
  const bool is_one_of =
      value != nullptr && std::find(requirement.values.begin(), requirement.values.end(), *value) !=
                              requirement.values.end();
  return is_one_of != requirement.is_negated;
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
