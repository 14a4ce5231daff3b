#include "operator/scaling/hardware_of.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <vector>

#include "controllers/cpu_costs.h"

namespace janus::control {
namespace {

std::string Lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// "NVIDIA A100-SXM4-80GB" as "nvidia", "a100", "sxm4", "80gb".
std::vector<std::string> WordsOf(std::string_view name) {
  std::vector<std::string> words = {""};
  for (const char c : Lower(name)) {
    if (c == ' ' || c == '-') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

// As NVIDIA's device plugin makes a node label of it.
std::string LabelOf(std::string_view name) {
  std::string out(name);
  std::ranges::replace(out, ' ', '-');
  return out;
}

std::optional<HardwareProfile> PresetOf(std::string_view name) {
  constexpr std::array<std::string_view, 3> kOtherDataSheets = {"pcie", "nvl", "mig"};
  std::optional<HardwareProfile> found;
  for (const std::string& word : WordsOf(name)) {
    if (std::ranges::find(kOtherDataSheets, word) != kOtherDataSheets.end()) return std::nullopt;
    for (const HardwareProfile& preset : HardwarePresets()) {
      if (Lower(preset.name) == word) found = preset;
    }
  }
  return found;
}

std::string PathOf(Role role) {
  return role == Role::kAttention ? "spec.roles.attention" : "spec.roles.experts";
}

Result<HardwareProfile> Named(const RoleDevice& device,
                              std::span<const HardwareProfileObject> profiles) {
  for (const HardwareProfileObject& object : profiles) {
    if (object.metadata.name == device.profile) return ToHardware(object);
  }
  Result<HardwareProfile> preset = FindHardware(device.profile);
  if (preset.ok()) return preset;
  return NotFound(PathOf(device.role) + ".hardwareProfile: there is no HardwareProfile " +
                  device.profile + " and no preset of that name (" + preset.status().message() +
                  "); create it, or name another one");
}

}  // namespace

Result<HardwareProfile> HardwareOf(const RoleDevice& device,
                                   std::span<const HardwareProfileObject> profiles) {
  if (!device.profile.empty()) return Named(device, profiles);
  if (!device.report) {
    return Unavailable("no worker of " + PathOf(device.role) + " has reported its device yet");
  }
  const DeviceReport& report = *device.report;
  if (report.cpu) {
    return controllers::CpuHardware(*report.cpu, std::max(device.threads, 1), device.memory_bytes);
  }
  const std::string advice = "; create a HardwareProfile for it, and set " + PathOf(device.role) +
                             ".hardwareProfile to its name";
  if (report.name.empty()) {
    return FailedPrecondition("the workers of " + PathOf(device.role) +
                              " report neither the name of a GPU nor the speed of their CPUs" +
                              advice);
  }
  for (const HardwareProfileObject& object : profiles) {
    const std::string& accelerator = object.spec.accelerator;
    if (accelerator.empty()) continue;
    if (accelerator == report.name || accelerator == LabelOf(report.name)) {
      return ToHardware(object);
    }
  }
  if (std::optional<HardwareProfile> preset = PresetOf(report.name)) return *std::move(preset);
  return FailedPrecondition("no data sheet is known of " + report.name +
                            ", on which the workers of " + PathOf(device.role) + " compute" +
                            advice + ", or set its spec.accelerator to " + LabelOf(report.name));
}

}  // namespace janus::control
