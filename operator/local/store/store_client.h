#pragma once

#include <string>

#include "operator/kube/object_api.h"
#include "operator/local/store/local_store.h"

namespace janus::control {

// A client of an object store, with a field manager name: the same interface and answers as
// KubeClient with an API server (the conformance suite tests both). Calls take no time of the
// timeline; only a watch waits in it. Thread-safe.
//
// Differences from an API server:
// - For built-in kinds it checks only metadata, Scale and the rules of built_in.h. Elsewhere it
//   accepts unknown fields and wrong types, also in an apply. It also accepts two variables,
//   secrets etc. of the same name.
// - An integer of a custom resource may not be written as a float (2.0); a server accepts some.
// - Its messages differ, and so do reasons of causes outside of status and metadata
//   (FieldValueInvalid). A server may report one problem in two causes, and adds a cause without
//   field if it has not checked all rules.
// - It does not check the times in metadata.
// - It validates generateName only on create; a server also does on update of a few kinds.
// - It sends no warnings.
// - It has no authentication, no admission plugins, one version per kind, and no controllers except
//   the garbage collector and namespace deletion, which act at once.
class StoreClient final : public ObjectApi {
 public:
  // `store` outlives this.
  StoreClient(LocalStore& store, std::string field_manager)
      : store_(store), field_manager_(std::move(field_manager)) {}

  ApiResult<Node> Get(const Resource& resource, const ObjectKey& key, Subresource subresource,
                      const CallLimits& limits) override;
  ApiResult<ObjectList> List(const Resource& resource, const ListOptions& options,
                             const CallLimits& limits) override;
  ApiResult<Node> Create(const Resource& resource, const Node& object, const WriteOptions& options,
                         const CallLimits& limits) override;
  ApiResult<Node> Update(const Resource& resource, const Node& object, Subresource subresource,
                         const WriteOptions& options, const CallLimits& limits) override;
  ApiResult<Node> Apply(const Resource& resource, const Node& object, Subresource subresource,
                        const ApplyOptions& options, const CallLimits& limits) override;
  ApiResult<Node> Patch(const Resource& resource, const ObjectKey& key, PatchKind kind,
                        const Node& patch, Subresource subresource, const WriteOptions& options,
                        const CallLimits& limits) override;
  ApiResult<Node> Delete(const Resource& resource, const ObjectKey& key,
                         const DeleteOptions& options, const CallLimits& limits) override;
  ApiResult<WatchEnd> Watch(const Resource& resource, const WatchOptions& options,
                            FunctionRef<bool(WatchEvent)> deliver,
                            const std::stop_token& stop) override;

 private:
  LocalStore& store_;
  const std::string field_manager_;
};

}  // namespace janus::control
