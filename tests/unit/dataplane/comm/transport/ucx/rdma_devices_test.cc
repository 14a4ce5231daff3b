#include "dataplane/comm/transport/ucx/rdma_devices.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dataplane/comm/transport/ucx/ucp_worker.h"
#include "tests/support/sysfs_tree.h"

namespace janus::dataplane {
namespace {

RdmaDevice Listed(const std::string& name) {
  return {name, {}, {{1, true, LinkLayer::kInfiniBand, 400'000'000'000}}};
}

TEST(RdmaDevices, HaveTheirPlacesFromSysfs) {
  SysfsTree sysfs;
  sysfs.Nic("pci0000:17/0000:17:02.0/0000:18:00.0", "mlx5_0", 0);
  sysfs.Nic("pci0000:b0/0000:b0:02.0/0000:b1:00.0", "mlx5_1", 1);
  std::vector<RdmaDevice> devices = {Listed("mlx5_1"), Listed("mlx5_0")};
  AddFromSysfs(sysfs.root(), devices);
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].name, "mlx5_0") << "by name";
  EXPECT_EQ(devices[0].place.address, "0000:18:00.0");
  EXPECT_EQ(devices[1].place.address, "0000:b1:00.0");
  EXPECT_EQ(devices[1].place.numa_node, 1);
  EXPECT_EQ(devices[1].ports, Listed("").ports) << "of libibverbs";
  EXPECT_TRUE(devices[0].is_usable && devices[1].is_usable);
}

// Like in a container: its sysfs shows the whole machine, and its /dev only the devices it was
// given.
TEST(RdmaDevices, ThatLibibverbsDoesNotListAreKnownAndNotUsable) {
  SysfsTree sysfs;
  sysfs.Nic("pci0000:17/0000:18:00.0", "mlx5_0", 0);
  sysfs.Nic("pci0000:17/0000:19:00.0", "mlx5_1", 0);
  std::vector<RdmaDevice> devices = {Listed("mlx5_1")};
  AddFromSysfs(sysfs.root(), devices);
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_FALSE(devices[0].is_usable);
  EXPECT_EQ(devices[0].place.address, "0000:18:00.0");
  EXPECT_TRUE(devices[0].ports.empty());
  EXPECT_TRUE(devices[1].is_usable);
}

TEST(RdmaDevices, AreThoseOfLibibverbsWhereThereIsNoSysfs) {
  std::vector<RdmaDevice> devices = {Listed("mlx5_10"), Listed("mlx5_2")};
  AddFromSysfs("/no/such/root", devices);
  EXPECT_EQ(devices, (std::vector<RdmaDevice>{Listed("mlx5_2"), Listed("mlx5_10")}));
}

TEST(RdmaDevices, AreFoundOnAnyMachine) {
  for (const RdmaDevice& device : FindRdmaDevices()) EXPECT_FALSE(device.name.empty());
  EXPECT_GE(CurrentNumaNode(), 0);
  SysfsTree sysfs;
  sysfs.Nic("pci0000:17/0000:18:00.0", "made-up_0");
  const std::vector<RdmaDevice> devices = FindRdmaDevices(sysfs.root());
  const auto made_up = std::find_if(devices.begin(), devices.end(), [](const RdmaDevice& device) {
    return device.name == "made-up_0";
  });
  ASSERT_NE(made_up, devices.end());
  EXPECT_FALSE(made_up->is_usable);
}

TEST(ComesBefore, CountsNumbersInNames) {
  EXPECT_TRUE(ComesBefore("mlx5_2", "mlx5_10"));
  EXPECT_FALSE(ComesBefore("mlx5_10", "mlx5_2"));
  EXPECT_TRUE(ComesBefore("ibp3s0", "mlx5_0"));
  EXPECT_FALSE(ComesBefore("mlx5_0", "mlx5_0"));
}

TEST(BitsPerSecond, IsLanesTimesWhatOneCarries) {
  constexpr int64_t kGigabit = 1'000'000'000;
  EXPECT_EQ(BitsPerSecond(2, 128), 400 * kGigabit) << "4x NDR";
  EXPECT_EQ(BitsPerSecond(2, 256), 800 * kGigabit) << "4x XDR";
  EXPECT_EQ(BitsPerSecond(16, 128), 200 * kGigabit) << "2x NDR";
  EXPECT_EQ(BitsPerSecond(2, 64), 200 * kGigabit) << "4x HDR";
  EXPECT_EQ(BitsPerSecond(2, 32), 100 * kGigabit) << "4x EDR";
  EXPECT_EQ(BitsPerSecond(2, 16), 56 * kGigabit) << "4x FDR";
  EXPECT_EQ(BitsPerSecond(1, 32), 25 * kGigabit) << "1x EDR, as 25 Gbit/s Ethernet";
  EXPECT_EQ(BitsPerSecond(8, 4), 120 * kGigabit) << "12x QDR";
  EXPECT_EQ(BitsPerSecond(4, 1), 20 * kGigabit) << "8x SDR";
  EXPECT_EQ(BitsPerSecond(1, 1), 5 * kGigabit / 2);
  EXPECT_EQ(BitsPerSecond(3, 32), 0);
  EXPECT_EQ(BitsPerSecond(2, 0), 0);
  EXPECT_EQ(BitsPerSecond(2, 3), 0);
  EXPECT_EQ(BitsPerSecond(2, 512), 0) << "one that came later";
}

TEST(RateText, IsForPeople) {
  EXPECT_EQ(RateText(400'000'000'000), "400 Gbit/s");
  EXPECT_EQ(RateText(2'500'000'000), "2.5 Gbit/s");
  EXPECT_EQ(RateText(0), "an unknown rate");
}

TEST(UcxDevices, NamesThePortAndTheWayToPeersWithoutRdma) {
  const std::vector<std::string> interfaces = {"eth0", "eth1"};
  EXPECT_EQ(UcxDevices("mlx5_2", 2, interfaces), "mlx5_2:2,eth0,eth1");
  EXPECT_EQ(UcxDevices("mlx5_0", 1, {}), "mlx5_0:1");
}

TEST(ConfiguredDevices, AreWhatTheUserHasGivenUcx) {
  unsetenv("UCX_NET_DEVICES");
  EXPECT_EQ(ucx::ConfiguredDevices(), "");
  for (const char* list : {"mlx5_0:1,eth0", "^mlx5_1:1", "eth0"}) {
    setenv("UCX_NET_DEVICES", list, 1);
    EXPECT_EQ(ucx::ConfiguredDevices(), list);
  }
  setenv("UCX_NET_DEVICES", "all", 1);
  EXPECT_EQ(ucx::ConfiguredDevices(), "") << "nothing is chosen by that";
  unsetenv("UCX_NET_DEVICES");
}

TEST(FindInterfaces, LeavesOutTheLoopbackOne) {
  const std::vector<std::string> interfaces = FindInterfaces();
  EXPECT_EQ(std::find(interfaces.begin(), interfaces.end(), "lo"), interfaces.end());
}

}  // namespace
}  // namespace janus::dataplane
