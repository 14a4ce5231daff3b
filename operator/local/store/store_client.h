#pragma once

#include <string>

#include "operator/kube/object_api.h"
#include "operator/local/store/local_store.h"

namespace janus::control {

// One caller of an object store, under its field manager's name: what KubeClient is to an API
// server, with the same answers (the conformance suite holds both to them). Calls take no time of
// the timeline; a watch waits in it. Thread-safe.
//
// What an API server does and this does not:
// - of built-in kinds it knows the rules of built_in.h alone: unknown fields and wrong types are
//   taken as they come;
// - a number that JSON has as a float (2.0) is none for an integer; a server takes some, where no
//   rule reads them;
// - patterns and formats inside a status are not judged, nor that a list's keys are distinct;
// - unknown fields inside owner references and in a Scale are taken;
// - an apply or a patch that gives another object's uid is told 409 for every kind, where a server
//   says 422, and takes a custom resource's status all the same;
// - an apply that a schema does not know is told 400 or 422, where a server says 500;
// - no authentication, no admission plugins, no other version of a kind, no controllers but the
//   garbage collector and the one that empties namespaces, which are done at once.
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
