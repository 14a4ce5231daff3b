#pragma once

#include "operator/kube/object_api.h"

namespace janus::control {

// For doubles that answer some calls: every other call is Unimplemented.
class UnimplementedApi : public ObjectApi {
 public:
  ApiResult<Node> Get(const Resource&, const ObjectKey&, Subresource, const CallLimits&) override {
    return LocalError(Unimplemented("get"));
  }
  ApiResult<ObjectList> List(const Resource&, const ListOptions&, const CallLimits&) override {
    return LocalError(Unimplemented("list"));
  }
  ApiResult<Node> Create(const Resource&, const Node&, const WriteOptions&,
                         const CallLimits&) override {
    return LocalError(Unimplemented("create"));
  }
  ApiResult<Node> Update(const Resource&, const Node&, Subresource, const WriteOptions&,
                         const CallLimits&) override {
    return LocalError(Unimplemented("update"));
  }
  ApiResult<Node> Apply(const Resource&, const Node&, Subresource, const ApplyOptions&,
                        const CallLimits&) override {
    return LocalError(Unimplemented("apply"));
  }
  ApiResult<Node> Patch(const Resource&, const ObjectKey&, PatchKind, const Node&, Subresource,
                        const WriteOptions&, const CallLimits&) override {
    return LocalError(Unimplemented("patch"));
  }
  ApiResult<Node> Delete(const Resource&, const ObjectKey&, const DeleteOptions&,
                         const CallLimits&) override {
    return LocalError(Unimplemented("delete"));
  }
  ApiResult<WatchEnd> Watch(const Resource&, const WatchOptions&, FunctionRef<bool(WatchEvent)>,
                            const std::stop_token&) override {
    return LocalError(Unimplemented("watch"));
  }
};

}  // namespace janus::control
