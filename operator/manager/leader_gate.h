#pragma once

#include <functional>

#include "operator/kube/object_api.h"

namespace janus::control {

// An ObjectApi that checks `may_act` before every call. If that is false, the call is not made and
// fails with Cancelled. So a process that was suspended during a pass writes nothing if it wakes up
// after its term. Thread-safe.
class LeaderGate final : public ObjectApi {
 public:
  // `api` outlives this. `may_act`: thread-safe, does not block.
  LeaderGate(ObjectApi& api, std::function<bool()> may_act)
      : api_(api), may_act_(std::move(may_act)) {}

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
  ObjectApi& api_;
  const std::function<bool()> may_act_;
};

}  // namespace janus::control
