#pragma once

#include "operator/kube/object_api.h"

namespace janus::control {

// For doubles that change some calls: every other call goes to the API below.
class PassingApi : public ObjectApi {
 public:
  // `api` outlives this.
  explicit PassingApi(ObjectApi& api) : api_(api) {}

  ApiResult<Node> Get(const Resource& resource, const ObjectKey& key, Subresource subresource,
                      const CallLimits& limits) override {
    return api_.Get(resource, key, subresource, limits);
  }
  ApiResult<ObjectList> List(const Resource& resource, const ListOptions& options,
                             const CallLimits& limits) override {
    return api_.List(resource, options, limits);
  }
  ApiResult<Node> Create(const Resource& resource, const Node& object, const WriteOptions& options,
                         const CallLimits& limits) override {
    return api_.Create(resource, object, options, limits);
  }
  ApiResult<Node> Update(const Resource& resource, const Node& object, Subresource subresource,
                         const WriteOptions& options, const CallLimits& limits) override {
    return api_.Update(resource, object, subresource, options, limits);
  }
  ApiResult<Node> Apply(const Resource& resource, const Node& object, Subresource subresource,
                        const ApplyOptions& options, const CallLimits& limits) override {
    return api_.Apply(resource, object, subresource, options, limits);
  }
  ApiResult<Node> Patch(const Resource& resource, const ObjectKey& key, PatchKind kind,
                        const Node& patch, Subresource subresource, const WriteOptions& options,
                        const CallLimits& limits) override {
    return api_.Patch(resource, key, kind, patch, subresource, options, limits);
  }
  ApiResult<Node> Delete(const Resource& resource, const ObjectKey& key,
                         const DeleteOptions& options, const CallLimits& limits) override {
    return api_.Delete(resource, key, options, limits);
  }
  ApiResult<WatchEnd> Watch(const Resource& resource, const WatchOptions& options,
                            FunctionRef<bool(WatchEvent)> deliver,
                            const std::stop_token& stop) override {
    return api_.Watch(resource, options, deliver, stop);
  }

 private:
  ObjectApi& api_;
};

}  // namespace janus::control
