#include "operator/manager/leader_gate.h"

namespace janus::control {
namespace {

ApiError LeadsNoMore() {
  return LocalError(Cancelled("this process leads no more"));
}

}  // namespace

ApiResult<Node> LeaderGate::Get(const Resource& resource, const ObjectKey& key,
                                Subresource subresource, const CallLimits& limits) {
  if (!may_act_()) return LeadsNoMore();
  return api_.Get(resource, key, subresource, limits);
}

ApiResult<ObjectList> LeaderGate::List(const Resource& resource, const ListOptions& options,
                                       const CallLimits& limits) {
  if (!may_act_()) return LeadsNoMore();
  return api_.List(resource, options, limits);
}

ApiResult<Node> LeaderGate::Create(const Resource& resource, const Node& object,
                                   const WriteOptions& options, const CallLimits& limits) {
  if (!may_act_()) return LeadsNoMore();
  return api_.Create(resource, object, options, limits);
}

ApiResult<Node> LeaderGate::Update(const Resource& resource, const Node& object,
                                   Subresource subresource, const WriteOptions& options,
                                   const CallLimits& limits) {
  if (!may_act_()) return LeadsNoMore();
  return api_.Update(resource, object, subresource, options, limits);
}

ApiResult<Node> LeaderGate::Apply(const Resource& resource, const Node& object,
                                  Subresource subresource, const ApplyOptions& options,
                                  const CallLimits& limits) {
  if (!may_act_()) return LeadsNoMore();
  return api_.Apply(resource, object, subresource, options, limits);
}

ApiResult<Node> LeaderGate::Patch(const Resource& resource, const ObjectKey& key, PatchKind kind,
                                  const Node& patch, Subresource subresource,
                                  const WriteOptions& options, const CallLimits& limits) {
  if (!may_act_()) return LeadsNoMore();
  return api_.Patch(resource, key, kind, patch, subresource, options, limits);
}

ApiResult<Node> LeaderGate::Delete(const Resource& resource, const ObjectKey& key,
                                   const DeleteOptions& options, const CallLimits& limits) {
  if (!may_act_()) return LeadsNoMore();
  return api_.Delete(resource, key, options, limits);
}

ApiResult<WatchEnd> LeaderGate::Watch(const Resource& resource, const WatchOptions& options,
                                      FunctionRef<bool(WatchEvent)> deliver,
                                      const std::stop_token& stop) {
  if (!may_act_()) return LeadsNoMore();
  return api_.Watch(resource, options, deliver, stop);
}

}  // namespace janus::control
