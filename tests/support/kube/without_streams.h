#pragma once

#include "tests/support/kube/unimplemented_api.h"

namespace janus::control {

// Another ObjectApi like that of an older server, which cannot stream lists: for readers of a
// resource. As thread-safe as the API below.
class WithoutStreams final : public UnimplementedApi {
 public:
  // `under` outlives this.
  explicit WithoutStreams(ObjectApi& under) : under_(under) {}

  ApiResult<ObjectList> List(const Resource& resource, const ListOptions& options,
                             const CallLimits& limits) override {
    return under_.List(resource, options, limits);
  }
  ApiResult<WatchEnd> Watch(const Resource& resource, const WatchOptions& options,
                            FunctionRef<bool(WatchEvent)> deliver,
                            const std::stop_token& stop) override {
    if (options.initial_events) return LocalError(InvalidArgument("no initial events here"));
    return under_.Watch(resource, options, deliver, stop);
  }

 private:
  ObjectApi& under_;
};

}  // namespace janus::control
