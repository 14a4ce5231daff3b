#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/api/tree.h"
#include "operator/local/store/list_types.h"

namespace janus::control {

// The parts of an object that can have separate owners (Kubernetes, "Server-Side Apply": field
// management): scalars, atomic lists and maps, empty maps, entries of sets, and items of keyed
// lists. The object's identity and server-managed metadata are not parts.

// From the root: "f:spec", "k:{\"name\":\"gateway\"}", "v:\"a\"", as in FieldsV1. Sorted so that a
// part comes after the part that contains it.
using FieldSetPath = std::vector<std::string>;
using FieldSet = std::set<FieldSetPath>;
// The value of each part. Null: an item of a keyed list; its fields are separate parts unless
// several items have its key. Borrows the object.
using ObjectParts = std::map<FieldSetPath, const Node*>;

// The key of an item in a list that is not atomic; nothing: it lacks a key field.
std::optional<std::string> NameOfItem(const Node& item, const ListType& type);

ObjectParts PartsOf(const Node& object, const TypeCursor& root);

// ".spec.template.spec.containers[name=\"gateway\"].image"
std::string ToText(const FieldSetPath& path);

// True if the set has the path, or a part below it.
bool HasBelow(const FieldSet& set, const FieldSetPath& path);

// Returns `live` with the content of `applied`: maps are merged by part, keyed lists by item,
// anything else is replaced. If `live` has several items of one key, the applied item replaces all
// of them.
Node MergeApplied(const Node* live, const Node& applied, const TypeCursor& at);

// Removes a part, and the maps and lists that become empty. Key fields stay as long as their item.
void RemovePart(Node& object, const FieldSetPath& path, const TypeCursor& root);

}  // namespace janus::control
