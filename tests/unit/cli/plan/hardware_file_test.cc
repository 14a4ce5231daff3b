#include "cli/plan/hardware_file.h"

#include <gtest/gtest.h>

namespace janus::cli {
namespace {

constexpr std::string_view kGood = R"(apiVersion: serving.janus.dev/v1alpha1
kind: HardwareProfile
metadata: {name: b200}
spec:
  memory: 180G
  memoryBandwidth: 7.7T
  peak: {bf16: 2250T, fp8: 4500T}
  intraNodeBandwidth: 900G
  interNodeBandwidth: 50G
  price: 9
)";

std::string Without(std::string_view line) {
  std::string text(kGood);
  const size_t at = text.find(line);
  return text.erase(at, text.find('\n', at) - at + 1);
}

std::string MessageOf(const std::string& text) {
  return ParseHardware(text, "b200.yaml").status().message();
}

TEST(HardwareFile, ReadsADataSheet) {
  const auto profile = ParseHardware(kGood, "b200.yaml");
  ASSERT_TRUE(profile.ok()) << profile.status().ToString();
  EXPECT_EQ(profile->name, "b200");
  EXPECT_EQ(profile->memory_bytes, 180e9);
  EXPECT_EQ(profile->memory_bytes_per_second, 7.7e12);
  EXPECT_EQ(profile->bf16_operations_per_second, 2.25e15);
  EXPECT_EQ(profile->fp8_operations_per_second, 4.5e15);
  EXPECT_EQ(profile->instances_per_node, 8);
  EXPECT_EQ(profile->price, 9);
}

TEST(HardwareFile, NamesTheFieldAndLine) {
  EXPECT_NE(MessageOf(Without("  memory: ")).find("spec.memory: is required"), std::string::npos);
  EXPECT_NE(
      MessageOf(std::string(kGood) + "  colour: 3\n")
          .find("b200.yaml:11: spec.colour: is not a field here; the fields are accelerator, "),
      std::string::npos)
      << MessageOf(std::string(kGood) + "  colour: 3\n");
  EXPECT_NE(MessageOf("kind: MoEService\n").find("kind: is 'MoEService'; want HardwareProfile"),
            std::string::npos);
  std::string broken(kGood);
  broken.replace(broken.find("180G"), 4, "lots");
  EXPECT_NE(MessageOf(broken).find("b200.yaml:5: spec.memory: "), std::string::npos)
      << MessageOf(broken);
  broken = kGood;
  broken.replace(broken.find("900G"), 4, "0");
  EXPECT_EQ(MessageOf(broken), "b200.yaml:8: spec.intraNodeBandwidth: is 0; want more than 0");
}

TEST(HardwareFile, ANameIsAPreset) {
  EXPECT_EQ(ReadHardware("h200")->name, "H200");
  EXPECT_EQ(ReadHardware("none.yaml").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace janus::cli
