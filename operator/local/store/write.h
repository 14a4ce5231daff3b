#pragma once

#include <optional>

#include "operator/kube/object_api.h"
#include "operator/local/store/field_ownership.h"
#include "operator/local/store/local_store.h"

namespace janus::control {

// The writes of the API, each within one session of the store. On error nothing is changed.
// `manager`: the writer and its subresource.

ApiResult<Node> CreateObject(LocalStore::Session& session, const Kind& kind, const Node& object,
                             const FieldManager& manager, const WriteOptions& options);
ApiResult<Node> UpdateObject(LocalStore::Session& session, const Kind& kind, const Node& object,
                             const FieldManager& manager, const WriteOptions& options);
ApiResult<Node> PatchObject(LocalStore::Session& session, const Kind& kind, const ObjectKey& key,
                            PatchKind patch_kind, const Node& patch, const FieldManager& manager,
                            const WriteOptions& options);
ApiResult<Node> ApplyObject(LocalStore::Session& session, const Kind& kind, const Node& object,
                            const FieldManager& manager, const ApplyOptions& options);
ApiResult<Node> DeleteObject(LocalStore::Session& session, const Kind& kind, const ObjectKey& key,
                             const DeleteOptions& options);

}  // namespace janus::control
