#pragma once

#include <vector>

#include "dataplane/comm/transport/transport.h"
#include "kernels/device/context.h"

namespace janus::dataplane {

// Has the device's copies from and to a transport's payloads run beside the host (Context::Pin),
// which else may wait in each for all that the device was given before: for peers, too, whom it
// waits for. For as long as there are the buffers, which transport and context outlive. Before the
// device is shown the transport's flags (DeviceSlots::Open), so that each segment is pinned as one.
// On the host nothing. Errors: Context::Pin's; nothing is pinned then, and all works as before.
Result<std::vector<kernels::Buffer>> PinPayloads(Transport& transport, kernels::Context& context);

}  // namespace janus::dataplane
