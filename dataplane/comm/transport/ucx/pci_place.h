#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace janus::dataplane {

// Where a PCI function sits in the machine, as sysfs has it. In a virtual machine that is what the
// hypervisor makes of it.
struct PciPlace {
  std::string address;  // "0000:3b:00.0"; empty: of no PCI function that is known
  // From the host bridge ("pci0000:3a") down to the bridge right above it; empty: not known.
  std::vector<std::string> bridges;
  int numa_node = -1;   // -1: the machine does not say
  std::string part_of;  // of a virtual function (SR-IOV): the physical one's address
  friend bool operator==(const PciPlace&, const PciPlace&) = default;
};

// What two functions have in common, nearer ones greater.
enum class PciNearness : uint8_t { kNothingKnown, kNumaNode, kHostBridge, kSwitch };

struct PciDistance {
  PciNearness nearness = PciNearness::kNothingKnown;
  int depth = 0;  // kSwitch: of the deepest bridge that is above both, the host's being 0
  friend auto operator<=>(const PciDistance&, const PciDistance&) = default;
};

// Pure. Two that have a bridge below the host bridge in common are behind one switch, as a root
// port alone has one device. That they are on two NUMA nodes, or that nobody knows, is the same.
PciDistance DistanceBetween(const PciPlace& a, const PciPlace& b);

// An address in the form of sysfs, out of that or of NVIDIA's (capitals, eight digits of a domain);
// empty: it is none. Pure.
std::string PciAddress(std::string_view text);

// What sysfs, which lies at `root` ("/sys"), knows of the function; no bridges where it has none
// such. `address` as PciAddress gives it.
PciPlace PlaceOf(const std::string& root, const std::string& address);
// Of the function whose part `path` is, a folder of sysfs or a link to one, as of a driver's
// device; no address where it is of none.
PciPlace PlaceOfPath(const std::string& path);

// The machine's GPUs of the maker of `gpu`, itself among them, by address: also those that this
// process cannot use, as sysfs has no containers. Empty: sysfs does not have `gpu`.
std::vector<PciPlace> GpusLike(const std::string& root, const PciPlace& gpu);

}  // namespace janus::dataplane
