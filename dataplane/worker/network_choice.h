#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/log.h"
#include "common/statistics.h"
#include "common/topology.h"
#include "dataplane/comm/transport/ucx/rdma_choice.h"
#include "dataplane/comm/transport/ucx/rdma_devices.h"

namespace janus::dataplane {

// What this machine has for messages beyond an instance's memory domain, and their receivers.
struct NetworkHere {
  std::vector<RdmaDevice> devices;
  std::vector<std::string> interfaces;
  RdmaUser user;
  std::string named;  // by the user, in UCX's words (ucx::ConfiguredDevices); empty: nothing
};

// `gpu`: PCI address of the GPU that the calling thread's instance computes on, as its context says
// it; empty: none. `root`: where sysfs lies.
NetworkHere LookForNetwork(std::string_view gpu, const std::string& root = "/sys");

// The devices and transports that UCX may use.
struct NetworkChoice {
  std::string transports = "tcp";  // UCX_TLS
  std::string devices;             // UCX_NET_DEVICES; empty: all
  ExchangeDevice device;           // the first RDMA device of these
};

// Which devices carry messages beyond the memory domain, which is logged with the reason and with
// those that were passed over. The user's own list stands as it is. `transport`: kTcp is without
// RDMA. Pure but for the log.
NetworkChoice ChooseNetwork(ExchangeTransport transport, const NetworkHere& here,
                            const Logger& log);

}  // namespace janus::dataplane
