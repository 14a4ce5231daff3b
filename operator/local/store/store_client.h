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
// - of built-in kinds it knows metadata, Scale and the rules of built_in.h alone: unknown fields
// and
//   wrong types elsewhere are taken as they come, by an apply too, and of two variables, secrets or
//   the like of one name both;
// - a number that JSON has as a float (2.0) is none for an integer of a custom resource; a server
//   takes some, where no rule reads them;
// - its messages are its own, and so are the causes' reasons outside of a status and of metadata
//   (FieldValueInvalid); a server may tell one thing in two causes, and adds one without a field
//   where it has not looked at all rules;
// - the times in metadata are not read: one that is none is taken;
// - generateName is judged when an object is created; a server judges it at a few kinds' updates
//   too;
// - it sends no warnings;
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
