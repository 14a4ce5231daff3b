#include "dataplane/comm/ucx/rdma_devices.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace janus::dataplane {
namespace {

TEST(NearestRdmaDevice, IsTheActiveOneOfTheNode) {
  const std::vector<RdmaDevice> devices = {
      {"mlx5_0", 0, 1}, {"mlx5_1", 1, 0}, {"mlx5_2", 1, 2}, {"mlx5_3", 1, 1}};
  EXPECT_EQ(NearestRdmaDevice(devices, 0)->name, "mlx5_0");
  EXPECT_EQ(NearestRdmaDevice(devices, 1)->name, "mlx5_2");
  EXPECT_EQ(NearestRdmaDevice(devices, 7)->name, "mlx5_0") << "none there: the first active one";
}

TEST(NearestRdmaDevice, IsNoneWhereNoPortIsUp) {
  const std::vector<RdmaDevice> devices = {{"mlx5_0", 0, 0}};
  EXPECT_EQ(NearestRdmaDevice(devices, 0), std::nullopt);
  EXPECT_EQ(NearestRdmaDevice({}, 0), std::nullopt);
}

TEST(UcxDevices, NamesThePortThatIsUpAndTheWayToPeersWithoutRdma) {
  const std::vector<std::string> interfaces = {"eth0", "eth1"};
  EXPECT_EQ(UcxDevices({"mlx5_2", 1, 2}, interfaces), "mlx5_2:2,eth0,eth1");
  EXPECT_EQ(UcxDevices({"mlx5_0", 0, 1}, {}), "mlx5_0:1");
}

TEST(FindInterfaces, LeavesOutTheLoopbackOne) {
  const std::vector<std::string> interfaces = FindInterfaces();
  EXPECT_EQ(std::find(interfaces.begin(), interfaces.end(), "lo"), interfaces.end());
}

TEST(FindRdmaDevices, AnswersOnAnyMachine) {
  for (const RdmaDevice& device : FindRdmaDevices()) EXPECT_FALSE(device.name.empty());
  EXPECT_GE(CurrentNumaNode(), 0);
}

}  // namespace
}  // namespace janus::dataplane
