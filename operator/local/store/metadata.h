#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/api/tree.h"
#include "operator/kube/error.h"
#include "operator/local/store/kinds.h"

namespace janus::control {

// Reads and changes metadata of any kind. Pure.

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
// Removes the references to those owners.
void DropOwners(Node& object, const std::vector<std::string>& uids);

// Removes repeated owner references that are equal in all fields; keeps the first.
void DropRepeatedOwners(Node& object);

bool HasFinalizer(const Node& object, std::string_view name);
bool HasFinalizers(const Node& object);
void AddFinalizer(Node& object, std::string_view name);
void RemoveFinalizer(Node& object, std::string_view name);

bool IsBeingDeleted(const Node& object);

// Copies the fields that only the server writes from `live` to `next`: identity, times, generation,
// version, managed fields.
void KeepServerFields(const Node& live, Node& next);
// Removes them from a new object.
void DropServerFields(Node& object);

// Validates names (also generateName of a create), labels, annotations, finalizers and owner
// references. `before`: null for a create.
std::vector<ApiCause> JudgeMetadata(const Kind& kind, const Node& object, const Node* before);

}  // namespace janus::control
