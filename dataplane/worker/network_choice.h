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

// The RDMA devices and interfaces of this machine, and what they are chosen for.
struct NetworkHere {
  std::vector<RdmaDevice> devices;
  std::vector<std::string> interfaces;
  RdmaUser user;
  std::string named;  // the user's list for UCX (ucx::ConfiguredDevices); empty: none
};

// `gpu`: PCI address of the GPU that the calling thread's instance computes on, from its context;
// empty: none. `root`: where sysfs is mounted.
NetworkHere LookForNetwork(std::string_view gpu, const std::string& root = "/sys");

// The devices and transports that UCX may use outside the memory domain.
struct NetworkChoice {
  std::string transports = "tcp";  // UCX_TLS
  std::string devices;             // UCX_NET_DEVICES; empty: all
  ExchangeDevice device;           // the first RDMA device in `devices`
  // UcpWorkerOptions::checks_datagrams.
  bool checks_datagrams = true;
};

// Chooses the devices for messages over a network. Logs the choice with its reason and the devices
// passed over. A list from the user is used unchanged. `transport` kTcp excludes RDMA; kRdma
// excludes TCP. Pure except for the log.
// FailedPrecondition: kRdma without a usable device; the message says what each device lacks.
Result<NetworkChoice> ChooseNetwork(ExchangeTransport transport, const NetworkHere& here,
                                    const Logger& log);

}  // namespace janus::dataplane
