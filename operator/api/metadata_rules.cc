#include "operator/api/metadata_rules.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace janus::control {
namespace {

constexpr size_t kMaxAnnotationBytes = 256 << 10;

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// True if it begins and ends with a letter or digit; `inner` characters may be in between.
bool IsWord(std::string_view text, size_t most, std::string_view inner, bool may_be_upper) {
  if (text.empty() || text.size() > most) return false;
  const auto is_outer = [&](char c) {
    return IsAlphanumeric(c) && (may_be_upper || c < 'A' || c > 'Z');
  };
  return is_outer(text.front()) && is_outer(text.back()) &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return is_outer(c) || inner.find(c) != std::string_view::npos;
         });
}

class Judge {
 public:
  explicit Judge(const Node* metadata) : metadata_(metadata) {}

  void Labels() {
    for (const NodeField& label : TextsOf("labels")) {
      if (!IsQualifiedName(label.name)) {
        Fail("labels", "'" + label.name.substr(0, 64) +
                           "' is not a label key; want [prefix/]name of letters, "
                           "digits, '-', '_', '.', with at most 63 in the name");
      }
      if (!IsLabelValue(label.value.text)) {
        Fail("labels",
             "'" + label.value.text.substr(0, 64) +
                 "' is not a label value; want at most 63 letters, digits, '-', '_', '.'");
      }
    }
  }

  void Annotations() {
    size_t bytes = 0;
    for (const NodeField& annotation : TextsOf("annotations")) {
      bytes += annotation.name.size() + annotation.value.text.size();
      std::string small = annotation.name;  // capital letters are allowed in a prefix here
      std::transform(small.begin(), small.end(), small.begin(), [](unsigned char c) {
        return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
      });
      if (IsQualifiedName(small)) continue;
      Fail("annotations", "'" + annotation.name.substr(0, 64) +
                              "' is not an annotation key; want [prefix/]name of letters, digits, "
                              "'-', '_', '.', with at most 63 in the name");
    }
    if (bytes > kMaxAnnotationBytes) {
      Fail("annotations", "have " + std::to_string(bytes) + " bytes; want at most 262144");
    }
  }

  void Finalizers() {
    const Node* const list = Find("finalizers");
    if (list == nullptr) return;
    for (const Node& one : list->items) {
      if (!IsQualifiedName(one.text)) {
        Fail("finalizers",
             "'" + one.text.substr(0, 64) + "' is not a finalizer name; want [prefix/]name");
      }
    }
  }

  FieldErrors errors;

 private:
  const Node* Find(std::string_view field) const {
    return metadata_ == nullptr ? nullptr : metadata_->Find(field);
  }
  // The string values of a map; reports the others.
  std::vector<NodeField> TextsOf(std::string_view field) {
    std::vector<NodeField> out;
    const Node* const map = Find(field);
    if (map == nullptr) return out;
    for (const NodeField& one : map->fields) {
      if (one.value.kind == Node::Kind::kString) {
        out.push_back(one);
      } else if (one.value.kind != Node::Kind::kNull) {
        Fail(std::string(field) + "." + one.name,
             "must be a string, is " + DescribeValue(one.value));
      }
    }
    return out;
  }
  void Fail(const std::string& field, std::string message) {
    errors.push_back({"metadata." + field, std::move(message), 0});
  }

  const Node* const metadata_;
};

}  // namespace

bool IsDnsLabel(std::string_view text) {
  return IsWord(text, 63, "-", false);
}

bool IsDnsSubdomain(std::string_view text) {
  if (text.size() > 253) return false;
  while (true) {
    const size_t dot = std::min(text.find('.'), text.size());
    if (!IsWord(text.substr(0, dot), 253, "-", false)) return false;
    if (dot == text.size()) return true;
    text.remove_prefix(dot + 1);
  }
}

bool IsQualifiedName(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash != text.npos) {
    if (!IsDnsSubdomain(text.substr(0, slash))) return false;
    text.remove_prefix(slash + 1);
  }
  return IsWord(text, 63, "-_.", true);
}

bool IsLabelValue(std::string_view text) {
  return text.empty() || IsWord(text, 63, "-_.", true);
}

FieldErrors ValidateMetadata(const Node& object) {
  Judge judge(object.Find("metadata"));
  judge.Labels();
  judge.Annotations();
  judge.Finalizers();
  return std::move(judge.errors);
}

}  // namespace janus::control
