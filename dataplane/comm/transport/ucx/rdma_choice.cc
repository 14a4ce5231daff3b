#include "dataplane/comm/transport/ucx/rdma_choice.h"

#include <fnmatch.h>

#include <algorithm>
#include <compare>

namespace janus::dataplane {
namespace {

// A port that is up.
struct Candidate {
  const RdmaDevice* device = nullptr;
  const RdmaPort* port = nullptr;
  PciDistance distance;
  int nth = 0;  // index among the remaining ports of its device

  std::string name() const { return device->name + ":" + std::to_string(port->number); }
};

std::vector<Candidate> PortsUp(std::span<const RdmaDevice> devices) {
  std::vector<Candidate> up;
  for (const RdmaDevice& device : devices) {
    if (!device.is_usable) continue;
    for (const RdmaPort& port : device.ports) {
      if (port.is_up) up.push_back({&device, &port, {}, 0});
    }
  }
  return up;
}

// What a device should be near to.
struct Place {
  PciPlace pci;
  bool is_gpu = false;

  PciDistance To(const RdmaDevice& device) const {
    if (is_gpu) return DistanceBetween(pci, device.place);
    const bool is_here = pci.numa_node >= 0 && device.place.numa_node == pci.numa_node;
    return {is_here ? PciNearness::kNumaNode : PciNearness::kNothingKnown};
  }
};

Place PlaceOfUser(const RdmaUser& user) {
  Place place;
  place.is_gpu = !user.gpu.empty();
  place.pci.address = user.gpu;
  if (!place.is_gpu) place.pci.numa_node = user.numa_node;
  for (const PciPlace& gpu : user.gpus) {
    if (place.is_gpu && gpu.address == user.gpu) place.pci = gpu;
  }
  return place;
}

// Identifies a card: its functions share its wires.
const std::string& CardOf(const RdmaDevice& device) {
  if (!device.place.part_of.empty()) return device.place.part_of;
  return device.place.address.empty() ? device.name : device.place.address;
}

// The nearest ports, of these the fastest, one for each wire, in the order of dealing.
std::vector<Candidate> Best(std::vector<Candidate> all, const Place& place) {
  for (Candidate& one : all) one.distance = place.To(*one.device);
  const auto is_worse = [](const Candidate& a, const Candidate& b) {
    if (a.distance != b.distance) return a.distance < b.distance;
    return a.port->bits_per_second < b.port->bits_per_second;
  };
  const auto best = std::max_element(all.begin(), all.end(), is_worse);
  if (best == all.end()) return {};
  const Candidate first = *best;
  std::erase_if(all, [&](const Candidate& one) { return is_worse(one, first); });
  for (size_t i = 1; i < all.size(); ++i) {
    if (all[i].device == all[i - 1].device) all[i].nth = all[i - 1].nth + 1;
  }
  const auto is_earlier = [](const Candidate& a, const Candidate& b) {
    const bool a_is_part = !a.device->place.part_of.empty();
    const bool b_is_part = !b.device->place.part_of.empty();
    if (a_is_part != b_is_part) return b_is_part;
    if (a.nth != b.nth) return a.nth < b.nth;
    return ComesBefore(a.device->name, b.device->name);
  };
  std::sort(all.begin(), all.end(), is_earlier);
  std::vector<Candidate> wires;
  for (const Candidate& one : all) {
    const bool is_known = std::any_of(wires.begin(), wires.end(), [&](const Candidate& wire) {
      return CardOf(*wire.device) == CardOf(*one.device) && wire.port->number == one.port->number;
    });
    if (!is_known) wires.push_back(one);
  }
  return wires;
}

bool AreTheSame(const std::vector<Candidate>& a, const std::vector<Candidate>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const Candidate& one, const Candidate& other) { return one.port == other.port; });
}

// The index of this GPU among the GPUs for which the same ports are best. Absent: this GPU is not
// in user.gpus, so ports are not dealt.
std::optional<size_t> TurnOf(const RdmaUser& user, const std::vector<Candidate>& all,
                             const std::vector<Candidate>& best) {
  size_t turn = 0;
  for (const PciPlace& gpu : user.gpus) {
    if (gpu.address == user.gpu) return turn;
    turn += AreTheSame(Best(all, {gpu, true}), best) ? 1 : 0;
  }
  return std::nullopt;
}

std::string Relation(const PciDistance& distance, const Place& place, const PciPlace& device) {
  const auto node = [](int numa_node) { return std::to_string(numa_node); };
  switch (distance.nearness) {
    case PciNearness::kSwitch:
      return "same PCIe switch";
    case PciNearness::kHostBridge:
      return "same PCIe host bridge " + place.pci.bridges.front();
    case PciNearness::kNumaNode:
      return "same NUMA node " + node(place.pci.numa_node);
    case PciNearness::kNothingKnown:
      break;
  }
  if (device.numa_node < 0) return "NUMA node not known";
  return place.pci.numa_node < 0 || place.pci.numa_node == device.numa_node
             ? "NUMA node " + node(device.numa_node)
             : "other NUMA node " + node(device.numa_node);
}

std::string LinkText(const RdmaPort& port) {
  return std::string(ToString(port.link)) + ", " + RateText(port.bits_per_second);
}

std::string Why(const Candidate& chosen, const Place& place) {
  const std::string whose = place.is_gpu ? "GPU " + place.pci.address : "the CPUs";
  std::string why;
  if (chosen.distance.nearness != PciNearness::kNothingKnown) {
    why = Relation(chosen.distance, place, chosen.device->place) + " as " + whose;
  } else if (place.is_gpu && place.pci.bridges.empty() && place.pci.numa_node < 0) {
    why = "any, as sysfs does not say where " + whose + " is";
  } else {
    const std::string at =
        place.pci.numa_node < 0 ? "" : " on NUMA node " + std::to_string(place.pci.numa_node);
    why = "any, as none is known to be near " + whose + at;
  }
  return why;
}

RdmaChoice Chosen(const Candidate& one, std::string why) {
  return {one.device->name,          one.port->number, one.port->link,
          one.port->bits_per_second, std::move(why),   {}};
}

// Every port and device but the chosen one.
std::vector<std::string> PassedOver(std::span<const RdmaDevice> devices, const RdmaPort* chosen,
                                    const Place* place) {
  std::vector<std::string> others;
  for (const RdmaDevice& device : devices) {
    std::string about;
    if (place != nullptr) about = Relation(place->To(device), *place, device.place) + ", ";
    if (!device.is_usable) {
      others.push_back(device.name + " (" + about + "not given to this process)");
    } else if (device.ports.empty()) {
      others.push_back(device.name + " (" + about + "cannot be opened)");
    }
    if (!device.place.part_of.empty()) about += "part of " + device.place.part_of + ", ";
    for (const RdmaPort& port : device.ports) {
      if (&port == chosen) continue;
      others.push_back(device.name + ":" + std::to_string(port.number) + " (" + about +
                       (port.is_up ? LinkText(port) : "down") + ")");
    }
  }
  return others;
}

}  // namespace

std::optional<RdmaChoice> ChooseRdmaDevice(std::span<const RdmaDevice> devices,
                                           const RdmaUser& user) {
  const std::vector<Candidate> all = PortsUp(devices);
  const Place place = PlaceOfUser(user);
  const std::vector<Candidate> best = Best(all, place);
  if (best.empty()) return std::nullopt;
  const std::optional<size_t> turn = place.is_gpu ? TurnOf(user, all, best) : std::nullopt;
  const size_t at = turn.value_or(0) % best.size();
  const Candidate& chosen = best[at];
  RdmaChoice choice = Chosen(chosen, Why(chosen, place));
  if (turn && best.size() > 1) {
    choice.why += ", number " + std::to_string(at + 1) + " of " + std::to_string(best.size()) +
                  " that are dealt among the GPUs as near to them";
  }
  choice.passed_over = PassedOver(devices, chosen.port, &place);
  return choice;
}

std::optional<RdmaChoice> NamedRdmaDevice(std::span<const RdmaDevice> devices,
                                          std::string_view list) {
  const bool is_negated = list.starts_with('^');
  if (is_negated) list.remove_prefix(1);
  std::vector<std::string> names;
  while (!list.empty()) {
    const size_t comma = list.find(',');
    names.emplace_back(list.substr(0, comma));
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  const std::vector<Candidate> up = PortsUp(devices);
  const auto names_it = [](const std::string& name, const Candidate& one) {
    return fnmatch(name.c_str(), one.name().c_str(), 0) == 0 ||
           fnmatch(name.c_str(), one.device->name.c_str(), 0) == 0;
  };
  const Candidate* found = nullptr;
  if (is_negated) {
    const auto first = std::find_if(up.begin(), up.end(), [&](const Candidate& one) {
      return std::none_of(names.begin(), names.end(),
                          [&](const std::string& name) { return names_it(name, one); });
    });
    if (first != up.end()) found = &*first;
  }
  for (size_t i = 0; i < names.size() && !is_negated && found == nullptr; ++i) {
    const auto first = std::find_if(up.begin(), up.end(),
                                    [&](const Candidate& one) { return names_it(names[i], one); });
    if (first != up.end()) found = &*first;
  }
  if (found == nullptr) return std::nullopt;
  RdmaChoice choice = Chosen(*found, "named by UCX_NET_DEVICES");
  choice.passed_over = PassedOver(devices, found->port, nullptr);
  return choice;
}

}  // namespace janus::dataplane
