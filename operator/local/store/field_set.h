#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/api/tree.h"
#include "operator/local/store/list_types.h"

namespace janus::control {

// The parts of an object that can be owned, each by itself (Kubernetes, "Server-Side Apply": field
// management): scalars, atomic lists and maps, empty maps, entries of sets, and the items of keyed
// lists. What identifies an object, and what the server alone writes in metadata, is none.

// From the root: "f:spec", "k:{\"name\":\"gateway\"}", "v:\"a\"", as FieldsV1 writes them.
// Ordered so that a part follows what it lies in.
using FieldSetPath = std::vector<std::string>;
using FieldSet = std::set<FieldSetPath>;
// The value of each; null: an item of a keyed list, whose fields are parts of their own unless
// there are several of its name. Borrows the object.
using ObjectParts = std::map<FieldSetPath, const Node*>;

// How an item is called in its list, which is no atomic one; nothing: it lacks a key.
std::optional<std::string> NameOfItem(const Node& item, const ListType& type);

ObjectParts PartsOf(const Node& object, const TypeCursor& root);

// ".spec.template.spec.containers[name=\"gateway\"].image"
std::string ToText(const FieldSetPath& path);

// Whether the set has the path, or a part that lies in it.
bool HasBelow(const FieldSet& set, const FieldSetPath& path);

// `live` with what `applied` says: maps part by part, keyed lists item by item, the rest replaced;
// several items of one name in `live` by the one that is applied.
Node MergeApplied(const Node* live, const Node& applied, const TypeCursor& at);

// Takes a part out, and the maps and lists that it leaves empty. Key fields stay as long as their
// item does.
void RemovePart(Node& object, const FieldSetPath& path, const TypeCursor& root);

}  // namespace janus::control
