#include "dataplane/worker/open_device.h"

#include <string>
#include <utility>

namespace janus::dataplane {
namespace {

// A worker that should use a GPU does not fall back to the CPU: it would have a different numerics
// class, and be slower than planned.
std::string_view WhatToDo(StatusCode code) {
  switch (code) {
    case StatusCode::kUnimplemented:
      return "; use --device cpu, or a build with CUDA (cmake -DJANUS_CUDA=ON)";
    case StatusCode::kFailedPrecondition:
      return "; build for it (cmake -DJANUS_CUDA_ARCHITECTURES=...), or use --device cpu";
    case StatusCode::kUnavailable:
      return "; give this process a GPU (in a pod, resources.limits of nvidia.com/gpu) and its "
             "machine NVIDIA's driver, or use --device cpu";
    default:
      return "";
  }
}

}  // namespace

Result<std::shared_ptr<kernels::Context>> OpenDevice(std::string_view name,
                                                     const MakeContext& make_cuda) {
  if (name == "cpu") {
    return std::shared_ptr<kernels::Context>(std::shared_ptr<void>(), &kernels::HostContext());
  }
  if (name != "cuda") {
    return InvalidArgument("--device " + std::string(name) + ": want cpu or cuda");
  }
  Result<std::unique_ptr<kernels::Context>> made = make_cuda();
  if (made.ok()) return std::shared_ptr<kernels::Context>(*std::move(made));
  const StatusCode code = made.status().code();
  return Status(code, "--device cuda: " + made.status().message() + std::string(WhatToDo(code)));
}

}  // namespace janus::dataplane
