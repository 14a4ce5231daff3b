#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace janus::dataplane {

// Where a PCI function sits in the machine, according to sysfs. In a virtual machine the hypervisor
// decides what sysfs shows.
struct PciPlace {
  std::string address;  // "0000:3b:00.0"; empty: no known PCI function
  // From the host bridge ("pci0000:3a") down to the bridge right above it; empty: not known.
  std::vector<std::string> bridges;
  int numa_node = -1;   // -1: unknown
  std::string part_of;  // for a virtual function (SR-IOV): the physical one's address
  friend bool operator==(const PciPlace&, const PciPlace&) = default;
};

// What two functions have in common; nearer ones compare greater.
enum class PciNearness : uint8_t { kNothingKnown, kNumaNode, kHostBridge, kSwitch };

struct PciDistance {
  PciNearness nearness = PciNearness::kNothingKnown;
  int depth = 0;  // kSwitch: of the deepest bridge above both, counted from the host bridge, which
                  // is 0
  friend auto operator<=>(const PciDistance&, const PciDistance&) = default;
};

// Pure. Two functions that share a bridge below the host bridge are behind one switch, because a
// root port alone has one device. Different NUMA nodes count like unknown ones.
PciDistance DistanceBetween(const PciPlace& a, const PciPlace& b);

// An address in the form of sysfs, from that form or NVIDIA's (capitals, eight digits of a domain);
// empty: `text` is no address. Pure.
std::string PciAddress(std::string_view text);

// What the sysfs at `root` ("/sys") knows of the function. `bridges` is empty if sysfs shows none.
// `address` is in the form of PciAddress.
PciPlace PlaceOf(const std::string& root, const std::string& address);
// The same for the function that contains `path`, a folder of sysfs or a link to one, such as a
// driver's device. No address if `path` belongs to no function.
PciPlace PlaceOfPath(const std::string& path);

// The machine's GPUs of the same maker as `gpu`, including it, by address. Includes GPUs that this
// process cannot use, because sysfs ignores containers. Empty: sysfs does not have `gpu`.
std::vector<PciPlace> GpusLike(const std::string& root, const PciPlace& gpu);

}  // namespace janus::dataplane
