#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/comm/transport/ucx/pci_place.h"
#include "dataplane/comm/transport/ucx/rdma_devices.h"

namespace janus::dataplane {

// Where an instance computes; its RDMA device should be near that.
struct RdmaUser {
  std::string gpu;             // PCI address; empty: it computes on the CPU, or the GPU is unknown
  std::vector<PciPlace> gpus;  // of the machine, including `gpu` if sysfs has it (GpusLike)
  int numa_node = 0;           // of its CPUs
};

struct RdmaChoice {
  std::string device;
  int port = 0;
  LinkLayer link = LinkLayer::kOther;
  int64_t bits_per_second = 0;
  std::string why;                       // "same PCIe switch as GPU 0000:3b:00.0"
  std::vector<std::string> passed_over;  // every other port and device, with its properties
};

// Chooses the port for an instance among those that are up; absent: no port is up. `devices` by
// name. Pure.
//
// With a GPU, the port with the shortest way to it: behind the same PCIe switch (the deepest one
// first), otherwise at the same host bridge, otherwise on the same NUMA node, otherwise any.
// Without a GPU, ports on the NUMA node of its CPUs come first. Among equally near ports the
// fastest wins, then the first by name.
//
// If the same ports are best for several GPUs, the GPUs share them: the GPUs in order of address
// take the ports in order of name. So eight GPUs and eight devices make eight pairs in a machine
// that does not tell their distances. All GPUs of the machine count, even those of other processes,
// because instances do not know of each other. Second ports of devices are dealt after all first
// ones. Of several functions that share a wire only one is dealt, the physical function first.
std::optional<RdmaChoice> ChooseRdmaDevice(std::span<const RdmaDevice> devices,
                                           const RdmaUser& user);

// The first port that is up and that the user's list for UCX names (UCX_NET_DEVICES:
// "mlx5_0:1,eth0", a shell pattern, or "^mlx5_0:1" for all but these). The result says that the
// user chose it. Absent: the list names no RDMA port that is up. Pure.
std::optional<RdmaChoice> NamedRdmaDevice(std::span<const RdmaDevice> devices,
                                          std::string_view list);

}  // namespace janus::dataplane
