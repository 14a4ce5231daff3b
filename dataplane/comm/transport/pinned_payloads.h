#pragma once

#include <vector>

#include "dataplane/comm/transport/transport.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// Pins the transport's payload memory (Context::Pin), so that the device copies from and to it
// without blocking the host. Without that, the host may wait in each copy for all earlier work of
// the device, which may itself wait for peers. Call it before DeviceSlots::Open, so that each
// segment is pinned as one. The memory stays pinned as long as the returned buffers exist;
// transport and context must outlive them. On the host context this does nothing. Errors: those of
// Context::Pin; then nothing is pinned, and everything works as before.
Result<std::vector<kernels::Buffer>> PinPayloads(Transport& transport, kernels::Context& context);

}  // namespace janus::dataplane
