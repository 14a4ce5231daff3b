#include "dataplane/comm/transport/ucx/pci_place.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>

#include "common/read_file.h"

namespace janus::dataplane {
namespace {

namespace fs = std::filesystem;

// Parses the hex number at the beginning of `text`, and removes it together with `mark` behind it.
std::optional<uint32_t> TakeHex(std::string_view& text, char mark) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (mark == '\0') return text.empty() ? std::optional(value) : std::nullopt;
  if (text.empty() || text.front() != mark) return std::nullopt;
  text.remove_prefix(1);
  return value;
}

bool IsHostBridge(std::string_view name) {
  if (!name.starts_with("pci")) return false;
  name.remove_prefix(3);
  return TakeHex(name, ':') && TakeHex(name, '\0');
}

// The first word of a small file of sysfs; empty: the file cannot be read.
std::string WordOf(const fs::path& file) {
  Result<std::string> text = ReadFile(file.string(), 4096);
  if (!text.ok()) return "";
  return text->substr(0, text->find_first_of(" \n"));
}

// Classes of GPUs: one for computing only (0x0302), and one that can also drive a screen (0x0300).
bool IsDisplay(const fs::path& device) {
  return WordOf(device / "class").starts_with("0x03");
}

}  // namespace

PciDistance DistanceBetween(const PciPlace& a, const PciPlace& b) {
  const size_t most = std::min(a.bridges.size(), b.bridges.size());
  size_t common = 0;
  while (common < most && a.bridges[common] == b.bridges[common]) ++common;
  if (common > 1) return {PciNearness::kSwitch, static_cast<int>(common) - 1};
  if (common == 1) return {PciNearness::kHostBridge};
  if (a.numa_node >= 0 && a.numa_node == b.numa_node) return {PciNearness::kNumaNode};
  return {};
}

std::string PciAddress(std::string_view text) {
  const auto domain = TakeHex(text, ':');
  if (!domain) return "";
  const auto bus = TakeHex(text, ':');
  if (!bus || *bus > 0xff) return "";
  const auto device = TakeHex(text, '.');
  if (!device || *device > 0x1f) return "";
  const auto function = TakeHex(text, '\0');
  if (!function || *function > 7) return "";
  char address[32];
  (void)std::snprintf(address, sizeof address, "%04x:%02x:%02x.%x", *domain, *bus, *device,
                      *function);
  return address;
}

PciPlace PlaceOf(const std::string& root, const std::string& address) {
  PciPlace place = PlaceOfPath(root + "/bus/pci/devices/" + address);
  place.address = address;
  return place;
}

PciPlace PlaceOfPath(const std::string& path) {
  PciPlace place;
  std::error_code error;
  const fs::path resolved = fs::canonical(path, error);
  if (error) return place;
  // ".../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/...": the last function is the one that the
  // path belongs to, and those before it are bridges. If one of these is itself a host bridge for
  // those below, no switch joins them.
  fs::path at, function;
  std::vector<std::string> above;
  for (const fs::path& part : resolved) {
    at /= part;
    const std::string name = part.string();
    if (IsHostBridge(name)) {
      above = {name};
    } else if (!above.empty() && PciAddress(name) == name) {
      place.address = name;
      place.bridges = above;
      function = at;
      above.push_back(name);
    }
  }
  if (place.address.empty()) return place;
  const std::string node = WordOf(function / "numa_node");
  std::from_chars(node.data(), node.data() + node.size(), place.numa_node);
  const fs::path physical = fs::read_symlink(function / "physfn", error);
  if (!error) place.part_of = PciAddress(physical.filename().string());
  return place;
}

std::vector<PciPlace> GpusLike(const std::string& root, const PciPlace& gpu) {
  const fs::path devices = root + "/bus/pci/devices";
  const std::string maker = WordOf(devices / gpu.address / "vendor");
  std::vector<PciPlace> gpus;
  if (maker.empty()) return gpus;
  std::error_code error;
  for (fs::directory_iterator entry(devices, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string address = entry->path().filename().string();
    const bool is_other = IsDisplay(entry->path()) && WordOf(entry->path() / "vendor") == maker;
    if (address == gpu.address || is_other) gpus.push_back(PlaceOf(root, address));
  }
  std::sort(gpus.begin(), gpus.end(),
            [](const PciPlace& a, const PciPlace& b) { return a.address < b.address; });
  return gpus;
}

}  // namespace janus::dataplane
