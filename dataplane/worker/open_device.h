#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "common/status.h"
#include "kernels/device/context.h"
#include "kernels/device/cuda_context.h"

namespace janus::dataplane {

using MakeContext = std::function<Result<std::unique_ptr<kernels::Context>>()>;

// Where a worker computes, by its flag: "cpu" is the host's context, "cuda" one of its own on this
// machine's first GPU. Errors are those of the making, with what to do; InvalidArgument: neither.
Result<std::shared_ptr<kernels::Context>> OpenDevice(
    std::string_view name, const MakeContext& make_cuda = kernels::MakeCudaContext);

}  // namespace janus::dataplane
