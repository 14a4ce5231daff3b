#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "operator/api/enums.h"
#include "operator/api/nearest.h"
#include "operator/api/quantity.h"
#include "operator/api/tree.h"

namespace janus::control {

// A value of the tree, its path, and where to report errors.
struct At {
  const Node& node;
  const std::string& path;
  FieldErrors& errors;

  void Fail(std::string message) const { errors.push_back({path, std::move(message), node.line}); }
  // False, with an error, if the value has another kind.
  bool Expect(Node::Kind kind) const {
    if (node.kind == kind) return true;
    std::string message = "must be " + std::string(Describe(kind)) + ", is ";
    message += DescribeValue(node);
    if (node.kind == Node::Kind::kNull) message += "; give a value or leave the field out";
    if (kind == Node::Kind::kString && !node.text.empty()) {
      message += "; write \"" + node.text.substr(0, 64) + "\" in quotes";
    }
    Fail(std::move(message));
    return false;
  }
};

// Read(at, out) for all value types of fields; each reports unreadable values.
inline void Read(const At& at, std::string& out) {
  if (at.Expect(Node::Kind::kString)) out = at.node.text;
}
inline void Read(const At& at, bool& out) {
  if (at.Expect(Node::Kind::kBool)) out = at.node.boolean;
}
inline void Read(const At& at, int64_t& out) {
  if (at.Expect(Node::Kind::kInteger)) out = at.node.integer;
}
inline void Read(const At& at, int32_t& out) {
  int64_t wide = out;
  Read(at, wide);
  if (wide < std::numeric_limits<int32_t>::min() || wide > std::numeric_limits<int32_t>::max()) {
    at.Fail("does not fit 32 bits: " + at.node.text);
    return;
  }
  out = static_cast<int32_t>(wide);
}
inline void Read(const At& at, Quantity& out) {
  // A plain integer is a quantity too: `size: 1073741824`. The API server accepts no other number.
  const bool is_integer = at.node.kind == Node::Kind::kInteger;
  if (!is_integer && !at.Expect(Node::Kind::kString)) return;
  if (!is_integer && at.node.text.size() > 18) {
    return at.Fail("has more than 18 characters; write it shorter");
  }
  Result<Quantity> quantity =
      ParseQuantity(is_integer ? std::to_string(at.node.integer) : at.node.text);
  if (!quantity.ok()) {
    at.Fail(quantity.status().message());
    return;
  }
  out = *std::move(quantity);
}
inline void Read(const At& at, Node& out) {  // any fields
  if (at.Expect(Node::Kind::kMap)) out = at.node;
}
template <class E>
  requires std::is_enum_v<E>
void Read(const At& at, E& out) {
  if (at.node.kind == Node::Kind::kString) {
    if (const std::optional<E> value = FromString<E>(at.node.text)) {
      out = *value;
      return;
    }
  }
  std::vector<std::string_view> names;
  for (const auto& [value, name] : EnumNames<E>::kNames) names.push_back(name);
  std::string was = at.node.text.empty() ? std::string(Describe(at.node.kind))
                                         : "'" + at.node.text.substr(0, 64) + "'";
  if (IsWordOfBoolean(at.node)) {
    was += std::string(", which YAML reads as ") + (at.node.boolean ? "true" : "false");
    // In quotes it would be a string.
    if (FromString<E>(at.node.text)) return at.Fail("is " + was + "; put it in quotes");
  }
  at.Fail("is " + was + "; use " + JoinOr(names));
}
template <class T>
void Read(const At& at, std::optional<T>& out) {
  Read(at, out.emplace());
}
template <class T>
void Read(const At& at, std::map<std::string, T>& out) {
  if (!at.Expect(Node::Kind::kMap)) return;
  for (const auto& [name, value] : at.node.fields) {
    if (value.kind == Node::Kind::kNull) continue;
    const std::string path = at.path + "." + name;
    Read(At{value, path, at.errors}, out[name]);
  }
}
template <class T>
void Read(const At& at, std::vector<T>& out) {
  if (!at.Expect(Node::Kind::kList)) return;
  for (size_t i = 0; i < at.node.items.size(); ++i) {
    const std::string path = at.path + "[" + std::to_string(i) + "]";
    Read(At{at.node.items[i], path, at.errors}, out.emplace_back());
  }
}

// The fields of one object: take the known ones, then refuse the others. A null counts as absent,
// as in the API server, where no schema of ours is nullable.
class Fields {
 public:
  explicit Fields(const At& at) : at_(at), readable_(at.Expect(Node::Kind::kMap)) {}

  // Reads the field into `out` if it is present; otherwise leaves `out` unchanged.
  template <class T>
  Fields& Take(std::string_view name, T& out) {
    known_.push_back(name);
    if (const Node* node = Written(name)) {
      const std::string path = Path(name);
      Read(At{*node, path, at_.errors}, out);
    }
    return *this;
  }

  // The same for a required field; `what` describes it: "the directory".
  template <class T>
  Fields& Require(std::string_view name, T& out, std::string_view what) {
    Take(name, out);
    if (readable_ && Written(name) == nullptr) {
      at_.errors.push_back({Path(name), "is required: " + std::string(what), at_.node.line});
    }
    return *this;
  }

  // A known field that is not read.
  Fields& Skip(std::string_view name) {
    known_.push_back(name);
    return *this;
  }

  // Reports every field that was not taken, with the nearest known name.
  void RefuseOthers() {
    for (const auto& [name, value] : at_.node.fields) {
      bool is_known = false;
      for (const std::string_view known : known_) is_known = is_known || known == name;
      if (is_known) continue;
      std::string message = "is not a field here";
      const std::string_view nearest = Nearest(name, known_);
      if (!nearest.empty()) {
        message += "; did you mean '" + std::string(nearest) + "'?";
      } else {
        message += "; the fields are " + JoinAnd();
      }
      at_.errors.push_back({Path(name), std::move(message), value.line});
    }
  }

 private:
  const Node* Written(std::string_view name) const {
    const Node* const node = at_.node.Find(name);
    return node == nullptr || node->kind == Node::Kind::kNull ? nullptr : node;
  }
  std::string Path(std::string_view name) const {
    return at_.path.empty() ? std::string(name) : at_.path + "." + std::string(name);
  }
  std::string JoinAnd() const {
    std::string out;
    for (const std::string_view known : known_) {
      if (!out.empty()) out += ", ";
      out += known;
    }
    return out;
  }

  const At at_;
  const bool readable_;
  std::vector<std::string_view> known_;
};

}  // namespace janus::control
