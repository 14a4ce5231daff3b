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

// Where an instance computes: what its device should be near to.
struct RdmaUser {
  std::string gpu;  // PCI address; empty: it computes on the CPU, or nobody knows the GPU
  std::vector<PciPlace> gpus;  // of the machine, `gpu` among them if sysfs has it (GpusLike)
  int numa_node = 0;           // of its CPUs
};

struct RdmaChoice {
  std::string device;
  int port = 0;
  LinkLayer link = LinkLayer::kOther;
  int64_t bits_per_second = 0;
  std::string why;                       // "same PCIe switch as GPU 0000:3b:00.0"
  std::vector<std::string> passed_over;  // every other port and device, with what is known of it
};

// Which port an instance should use of those that are up; absent: none is. `devices` by name. Pure.
//
// With a GPU the one with the shortest way to it: behind the same PCIe switch, the deepest before
// others; else at the same host bridge; else on the same NUMA node; else any. Without one those on
// the NUMA node of its CPUs come first. Of those that are as near the fastest, then the first by
// name.
//
// But GPUs for which the same ports are left over share them out, by address the one, by name the
// other, so that eight GPUs and eight devices in a machine that says nothing of their ways make
// eight pairs. All GPUs of the machine count, whoever computes on them: instances need not know of
// each other. Two ports of a device are dealt after the first ones of all, and a virtual function
// whose wire another function has too is not dealt.
std::optional<RdmaChoice> ChooseRdmaDevice(std::span<const RdmaDevice> devices,
                                           const RdmaUser& user);

// The first port that is up of those that a user's list for UCX names (UCX_NET_DEVICES:
// "mlx5_0:1,eth0"; a pattern of the shell's; "^mlx5_0:1": all but these), as somebody else's
// choice; absent: none is RDMA. Pure.
std::optional<RdmaChoice> NamedRdmaDevice(std::span<const RdmaDevice> devices,
                                          std::string_view list);

}  // namespace janus::dataplane
