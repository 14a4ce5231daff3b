#include "dataplane/comm/ucx/rdma_devices.h"

#include <gtest/gtest.h>

namespace janus::dataplane {
namespace {

TEST(NearestRdmaDevice, IsTheActiveOneOfTheNode) {
  const std::vector<RdmaDevice> devices = {
      {"mlx5_0", 0, true}, {"mlx5_1", 1, false}, {"mlx5_2", 1, true}, {"mlx5_3", 1, true}};
  EXPECT_EQ(NearestRdmaDevice(devices, 0)->name, "mlx5_0");
  EXPECT_EQ(NearestRdmaDevice(devices, 1)->name, "mlx5_2");
  EXPECT_EQ(NearestRdmaDevice(devices, 7)->name, "mlx5_0") << "none there: the first active one";
}

TEST(NearestRdmaDevice, IsNoneWhereNoPortIsUp) {
  const std::vector<RdmaDevice> devices = {{"mlx5_0", 0, false}};
  EXPECT_EQ(NearestRdmaDevice(devices, 0), std::nullopt);
  EXPECT_EQ(NearestRdmaDevice({}, 0), std::nullopt);
}

TEST(FindRdmaDevices, AnswersOnAnyMachine) {
  for (const RdmaDevice& device : FindRdmaDevices()) EXPECT_FALSE(device.name.empty());
  EXPECT_GE(CurrentNumaNode(), 0);
}

}  // namespace
}  // namespace janus::dataplane
