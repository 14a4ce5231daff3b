#pragma once

#include <cstddef>
#include <utility>

#include "operator/kube/object_api.h"

namespace janus::control {

// Another ObjectApi, as seen by a process that is killed at one of its calls: before the call, or
// after it is done and before the answer arrives. Later calls do not reach the server. Confined to
// one thread.
class EndingApi final : public ObjectApi {
 public:
  // `under` outlives this. `at`: the call's number, from 0.
  EndingApi(ObjectApi& under, size_t at, bool is_done) : under_(under), at_(at), done_(is_done) {}

  bool has_ended() const { return has_ended_; }
  size_t calls() const { return calls_; }

  ApiResult<Node> Get(const Resource& resource, const ObjectKey& key, Subresource subresource,
                      const CallLimits& limits) override {
    return Call<Node>([&] { return under_.Get(resource, key, subresource, limits); });
  }
  ApiResult<ObjectList> List(const Resource& resource, const ListOptions& options,
                             const CallLimits& limits) override {
    return Call<ObjectList>([&] { return under_.List(resource, options, limits); });
  }
  ApiResult<Node> Create(const Resource& resource, const Node& object, const WriteOptions& options,
                         const CallLimits& limits) override {
    return Call<Node>([&] { return under_.Create(resource, object, options, limits); });
  }
  ApiResult<Node> Update(const Resource& resource, const Node& object, Subresource subresource,
                         const WriteOptions& options, const CallLimits& limits) override {
    return Call<Node>(
        [&] { return under_.Update(resource, object, subresource, options, limits); });
  }
  ApiResult<Node> Apply(const Resource& resource, const Node& object, Subresource subresource,
                        const ApplyOptions& options, const CallLimits& limits) override {
    return Call<Node>([&] { return under_.Apply(resource, object, subresource, options, limits); });
  }
  ApiResult<Node> Patch(const Resource& resource, const ObjectKey& key, PatchKind kind,
                        const Node& patch, Subresource subresource, const WriteOptions& options,
                        const CallLimits& limits) override {
    return Call<Node>(
        [&] { return under_.Patch(resource, key, kind, patch, subresource, options, limits); });
  }
  ApiResult<Node> Delete(const Resource& resource, const ObjectKey& key,
                         const DeleteOptions& options, const CallLimits& limits) override {
    return Call<Node>([&] { return under_.Delete(resource, key, options, limits); });
  }
  ApiResult<WatchEnd> Watch(const Resource& resource, const WatchOptions& options,
                            FunctionRef<bool(WatchEvent)> deliver,
                            const std::stop_token& stop) override {
    return Call<WatchEnd>([&] { return under_.Watch(resource, options, deliver, stop); });
  }

 private:
  template <class T, class Act>
  ApiResult<T> Call(const Act& act) {
    if (has_ended_) return LocalError(Cancelled("the process has ended"));
    if (calls_++ != at_) return act();
    if (done_) (void)act();
    has_ended_ = true;
    return LocalError(Cancelled("the process has ended"));
  }

  ObjectApi& under_;
  const size_t at_;
  const bool done_;
  size_t calls_ = 0;
  bool has_ended_ = false;
};

}  // namespace janus::control
