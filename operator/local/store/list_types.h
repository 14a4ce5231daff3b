#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/api/tree.h"

namespace janus::control {

// Whether a list or map has one owner, or each part has its owner (Kubernetes, "Server-Side Apply":
// merge strategy).
struct ListType {
  enum class Kind { kAtomic, kSet, kMap };
  Kind kind = Kind::kAtomic;
  std::vector<std::string_view> keys;  // kMap: the key fields of an item
};

// A position in an object and the merge rules there. They come from the schema of the kind or of
// metadata. For built-in kinds they come from a table of the fields that the operator writes; other
// lists are atomic, other maps are not. Cheap to copy; borrows the schema.
class TypeCursor {
 public:
  // At the root; null: a built-in kind.
  explicit TypeCursor(const Node* schema) : schema_(schema), is_built_in_(schema == nullptr) {}

  TypeCursor Field(std::string_view name) const;
  TypeCursor Item() const;

  // The schema at this position; null: no schema.
  const Node* schema() const { return schema_; }
  ListType list_type() const;
  bool is_atomic_map() const;

 private:
  const Node* schema_;  // null: a built-in kind, or a part without schema
  bool is_built_in_;
  bool is_root_ = true;
  std::string_view parent_;
  std::string_view name_;
};

// The value of an item's key field; the default protocol of a port is TCP. Null: missing.
const Node* KeyValue(const Node& item, std::string_view key);

}  // namespace janus::control
