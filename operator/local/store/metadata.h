#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/api/tree.h"
#include "operator/kube/error.h"
#include "operator/local/store/kinds.h"

namespace janus::control {

// Reads and changes of metadata, alike for all kinds. Pure.

inline constexpr std::string_view kForegroundFinalizer = "foregroundDeletion";
inline constexpr std::string_view kOrphanFinalizer = "orphan";

struct OwnerReference {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;
  bool blocks_deletion = false;
};
std::vector<OwnerReference> OwnersOf(const Node& object);
// Without the references to those owners.
void DropOwners(Node& object, const std::vector<std::string>& uids);

// Of owner references that are alike in all fields, the first stays.
void DropRepeatedOwners(Node& object);

bool HasFinalizer(const Node& object, std::string_view name);
bool HasFinalizers(const Node& object);
void AddFinalizer(Node& object, std::string_view name);
void RemoveFinalizer(Node& object, std::string_view name);

bool IsBeingDeleted(const Node& object);

// What the server alone writes, of `live` into `next`: identity, times, generation, version,
// managed fields.
void KeepServerFields(const Node& live, Node& next);
// Those of a new object removed.
void DropServerFields(Node& object);

// What is wrong with names (of a create with generateName too), labels, annotations, finalizers and
// owner references. `before`: null for a create.
std::vector<ApiCause> JudgeMetadata(const Kind& kind, const Node& object, const Node* before);

}  // namespace janus::control
