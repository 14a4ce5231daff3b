#include "operator/scaling/hardware_of.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace janus::control {
namespace {

constexpr double kGB = 1e9;

Quantity Of(int64_t value) {
  return {value, value * 1000, std::to_string(value)};
}

HardwareProfileObject Object(const std::string& name, const std::string& accelerator = "") {
  HardwareProfileObject out;
  out.metadata.name = name;
  out.spec.accelerator = accelerator;
  out.spec.memory = Of(64'000'000'000);
  out.spec.memory_bandwidth = Of(2'000'000'000'000);
  out.spec.peak.bf16 = Of(400'000'000'000'000);
  out.spec.intra_node_bandwidth = Of(100'000'000'000);
  out.spec.inter_node_bandwidth = Of(50'000'000'000);
  return out;
}

RoleDevice Gpu(const std::string& name) {
  RoleDevice out;
  out.role = Role::kExperts;
  out.report = DeviceReport{name};
  return out;
}

TEST(HardwareOf, TakesTheObjectThatTheSpecNamesBeforeAPreset) {
  const std::vector<HardwareProfileObject> profiles = {Object("H20"), Object("ours")};
  RoleDevice device = Gpu("NVIDIA H100 80GB HBM3");
  device.profile = "H20";
  EXPECT_EQ(HardwareOf(device, profiles)->memory_bytes, 64 * kGB);
  EXPECT_EQ(HardwareOf(device, {})->memory_bytes, 96 * kGB) << "the preset";
  device.report.reset();
  EXPECT_EQ(HardwareOf(device, {})->name, "H20") << "no report is needed";
  device.profile = "H99";
  const Status unknown = HardwareOf(device, profiles).status();
  EXPECT_EQ(unknown.code(), StatusCode::kNotFound);
  EXPECT_TRUE(unknown.message().starts_with("spec.roles.experts.hardwareProfile: "))
      << unknown.message();
  EXPECT_NE(unknown.message().find("H99"), std::string::npos);
}

TEST(HardwareOf, TakesTheObjectOfTheDevicesLabelBeforeAPreset) {
  const std::vector<HardwareProfileObject> profiles = {Object("other", "NVIDIA-A100-SXM4-80GB"),
                                                       Object("ours", "NVIDIA-H100-80GB-HBM3")};
  EXPECT_EQ(HardwareOf(Gpu("NVIDIA H100 80GB HBM3"), profiles)->name, "ours");
  EXPECT_EQ(HardwareOf(Gpu("NVIDIA H200"), profiles)->name, "H200");
}

TEST(HardwareOf, FindsThePresetInTheNameOfTheDevice) {
  for (const auto& [name, preset] : {std::pair{"NVIDIA H100 80GB HBM3", "H100"},
                                     {"NVIDIA H200", "H200"},
                                     {"NVIDIA H20", "H20"},
                                     {"NVIDIA A100-SXM4-80GB", "A100"},
                                     {"NVIDIA A800-SXM4-80GB", "A800"},
                                     {"NVIDIA L40S", "L40S"},
                                     {"NVIDIA L20", "L20"}}) {
    const Result<HardwareProfile> found = HardwareOf(Gpu(name), {});
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    EXPECT_EQ(found->name, preset) << name;
  }
}

TEST(HardwareOf, ADeviceWithoutADataSheetIsNamedWithWhatToDo) {
  for (const std::string name : {"NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA B300",
                                 "NVIDIA H100 80GB HBM3 MIG 1g.10gb"}) {
    const Status unknown = HardwareOf(Gpu(name), {}).status();
    EXPECT_EQ(unknown.code(), StatusCode::kFailedPrecondition) << name;
    for (const std::string& part : {name, std::string("create a HardwareProfile"),
                                    std::string("spec.roles.experts.hardwareProfile")}) {
      EXPECT_NE(unknown.message().find(part), std::string::npos) << unknown.message();
    }
  }
  EXPECT_EQ(HardwareOf(Gpu(""), {}).status().code(), StatusCode::kFailedPrecondition);
  RoleDevice silent;
  EXPECT_EQ(HardwareOf(silent, {}).status().code(), StatusCode::kUnavailable);
}

TEST(HardwareOf, TakesWhatAWorkerMeasuredOfItsCpus) {
  RoleDevice device;
  device.report = DeviceReport{"", CpuSpeed{8, {10e9, 50e9}, {25e9, 400e9}}};
  device.memory_bytes = 1e9;
  device.threads = 2;
  const Result<HardwareProfile> two = HardwareOf(device, {});
  ASSERT_TRUE(two.ok()) << two.status().ToString();
  EXPECT_TRUE(two->is_cpu);
  EXPECT_EQ(two->memory_bytes_per_second, 20e9);
  EXPECT_EQ(two->bf16_operations_per_second, 100e9);
  device.threads = 8;
  const Result<HardwareProfile> all = HardwareOf(device, {});
  EXPECT_EQ(all->memory_bytes_per_second, 25e9) << "no more than all threads were measured to read";
  EXPECT_EQ(all->bf16_operations_per_second, 400e9);
  EXPECT_TRUE(Validate(*all).ok());
}

}  // namespace
}  // namespace janus::control
