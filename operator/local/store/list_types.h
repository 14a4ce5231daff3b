#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/api/tree.h"

namespace janus::control {

// Whether a list or map has one owner or its parts have theirs (Kubernetes, "Server-Side Apply":
// merge strategy).
struct ListType {
  enum class Kind { kAtomic, kSet, kMap };
  Kind kind = Kind::kAtomic;
  std::vector<std::string_view> keys;  // kMap: the fields that tell items apart
};

// Where a walk through an object stands, and how the value there is merged: what the
// schema of the kind, or of metadata, says, or, for the built-in kinds, a table of the fields that
// the operator writes (others: lists are atomic, maps are not). Cheap to copy; borrows the schema.
class TypeCursor {
 public:
  // At the root; null: a built-in kind.
  explicit TypeCursor(const Node* schema) : schema_(schema), is_built_in_(schema == nullptr) {}

  TypeCursor Field(std::string_view name) const;
  TypeCursor Item() const;

  // What the schema says here; null: there is none.
  const Node* schema() const { return schema_; }
  ListType list_type() const;
  bool is_atomic_map() const;

 private:
  const Node* schema_;  // null: built-in, or a part that the schema leaves open
  bool is_built_in_;
  bool is_root_ = true;
  std::string_view parent_;
  std::string_view name_;
};

// The value of an item's key field; a port's protocol is TCP when it is not there. Null: none.
const Node* KeyValue(const Node& item, std::string_view key);

}  // namespace janus::control
