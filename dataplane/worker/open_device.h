#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "common/status.h"
#include "kernels/device/context.h"
#include "kernels/device/cuda_context.h"

namespace janus::dataplane {

using MakeContext = std::function<Result<std::unique_ptr<kernels::Context>>()>;

// Opens the device of a worker's flag: "cpu" is the host's context, "cuda" a new context on this
// machine's first GPU. Errors say what to do; InvalidArgument: any other name.
Result<std::shared_ptr<kernels::Context>> OpenDevice(
    std::string_view name, const MakeContext& make_cuda = kernels::MakeCudaContext);

}  // namespace janus::dataplane
