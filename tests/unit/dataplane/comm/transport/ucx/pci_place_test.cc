#include "dataplane/comm/transport/ucx/pci_place.h"

#include <gtest/gtest.h>

#include "tests/support/sysfs_tree.h"

namespace janus::dataplane {
namespace {

// Below one root port, a switch with one upstream port and several downstream ports.
constexpr char kSwitch[] = "pci0000:3a/0000:3a:00.0/0000:3b:00.0";

TEST(PciAddress, IsThatOfSysfsHoweverItIsWritten) {
  EXPECT_EQ(PciAddress("0000:3b:00.0"), "0000:3b:00.0");
  EXPECT_EQ(PciAddress("0000:3B:00.0"), "0000:3b:00.0");
  EXPECT_EQ(PciAddress("00000000:AF:1F.7"), "0000:af:1f.7");
  EXPECT_EQ(PciAddress("10000:01:00.0"), "10000:01:00.0") << "domains of controllers are longer";
  for (const char* text : {"", "mlx5_0", "3b:00.0", "0000:3b:00", "0000:3b:00.8", "0000:3b:20.0",
                           "0000:13b:00.0", "0000:3b:00.0 ", "0000:3b:00.0/x", "pci0000:3a"}) {
    EXPECT_EQ(PciAddress(text), "") << text;
  }
}

TEST(PciPlace, HasTheBridgesAboveAFunctionAndItsNode) {
  SysfsTree sysfs;
  sysfs.Gpu(std::string(kSwitch) + "/0000:3c:00.0/0000:3d:00.0", 1);
  const PciPlace place = PlaceOf(sysfs.root(), "0000:3d:00.0");
  const PciPlace expected{
      "0000:3d:00.0", {"pci0000:3a", "0000:3a:00.0", "0000:3b:00.0", "0000:3c:00.0"}, 1, ""};
  EXPECT_EQ(place, expected);
}

TEST(PciPlace, OfARdmaDeviceIsThatOfItsFunction) {
  SysfsTree sysfs;
  sysfs.Nic("pci0000:17/0000:17:02.0/0000:18:00.0", "mlx5_0", 0);
  const PciPlace place = PlaceOfPath(sysfs.root() + "/class/infiniband/mlx5_0");
  const PciPlace expected{"0000:18:00.0", {"pci0000:17", "0000:17:02.0"}, 0, ""};
  EXPECT_EQ(place, expected);
}

TEST(PciPlace, OfAVirtualFunctionSaysOfWhichItIs) {
  SysfsTree sysfs;
  sysfs.Nic("pci0000:17/0000:17:02.0/0000:18:00.0", "mlx5_0");
  sysfs.VirtualNic("pci0000:17/0000:17:02.0/0000:18:00.3", "mlx5_1", "0000:18:00.0", 0);
  const PciPlace place = PlaceOf(sysfs.root(), "0000:18:00.3");
  const PciPlace expected{"0000:18:00.3", {"pci0000:17", "0000:17:02.0"}, 0, "0000:18:00.0"};
  EXPECT_EQ(place, expected);
}

// VMD and some clouds' hypervisors put a host bridge below another one.
TEST(PciPlace, BeginsAtTheHostBridgeThatIsLowest) {
  SysfsTree sysfs;
  sysfs.Nic("pci0000:00/0000:00:0e.0/pci10000:00/10000:00:01.0/10000:01:00.0", "mlx5_0");
  EXPECT_EQ(PlaceOf(sysfs.root(), "10000:01:00.0").bridges,
            (std::vector<std::string>{"pci10000:00", "10000:00:01.0"}));
}

TEST(PciPlace, IsAsFarAsSysfsHasIt) {
  SysfsTree sysfs;
  sysfs.SoftNic("rxe0");
  EXPECT_EQ(PlaceOfPath(sysfs.root() + "/class/infiniband/rxe0"), PciPlace());
  EXPECT_EQ(PlaceOfPath(sysfs.root() + "/class/infiniband/none"), PciPlace());
  EXPECT_EQ(PlaceOf(sysfs.root(), "0000:3b:00.0"), (PciPlace{"0000:3b:00.0", {}, -1, ""}));
  EXPECT_EQ(PlaceOf("/no/such/root", "0000:3b:00.0"), (PciPlace{"0000:3b:00.0", {}, -1, ""}));
  sysfs.Gpu("pci0000:3a/0000:3b:00.0", 1);
  sysfs.Remove("devices/pci0000:3a/0000:3b:00.0/numa_node");
  EXPECT_EQ(PlaceOf(sysfs.root(), "0000:3b:00.0"),
            (PciPlace{"0000:3b:00.0", {"pci0000:3a"}, -1, ""}));
}

TEST(PciDistance, IsTheDeepestBridgeInCommonElseTheNode) {
  const PciPlace gpu{"", {"pci0000:3a", "a", "b", "c"}, 1, ""};
  const auto to = [&](std::vector<std::string> bridges, int numa_node) {
    return DistanceBetween(gpu, {"", std::move(bridges), numa_node, ""});
  };
  EXPECT_EQ(to({"pci0000:3a", "a", "b", "d"}, 1), (PciDistance{PciNearness::kSwitch, 2}));
  EXPECT_EQ(to({"pci0000:3a", "a", "x", "c"}, 1), (PciDistance{PciNearness::kSwitch, 1}))
      << "a name further down does not count";
  EXPECT_EQ(to({"pci0000:3a", "x"}, 1), (PciDistance{PciNearness::kHostBridge, 0}));
  EXPECT_EQ(to({"pci0000:3a"}, -1), (PciDistance{PciNearness::kHostBridge, 0}));
  EXPECT_EQ(to({"pci0000:4a", "a"}, 1), (PciDistance{PciNearness::kNumaNode, 0}));
  EXPECT_EQ(to({}, 1), (PciDistance{PciNearness::kNumaNode, 0}));
  EXPECT_EQ(to({"pci0000:4a"}, 0), PciDistance());
  EXPECT_EQ(DistanceBetween({"", {"pci0000:1"}, -1, ""}, {"", {"pci0000:2"}, -1, ""}),
            PciDistance())
      << "that nobody says a node is no node in common";
}

TEST(PciDistance, OrdersBySwitchThenHostBridgeThenNode) {
  EXPECT_GT((PciDistance{PciNearness::kSwitch, 2}), (PciDistance{PciNearness::kSwitch, 1}));
  EXPECT_GT((PciDistance{PciNearness::kSwitch, 1}), (PciDistance{PciNearness::kHostBridge, 0}));
  EXPECT_GT((PciDistance{PciNearness::kHostBridge, 0}), (PciDistance{PciNearness::kNumaNode, 0}));
  EXPECT_GT((PciDistance{PciNearness::kNumaNode, 0}), PciDistance());
}

TEST(GpusLike, AreThoseOfTheSameMakerByAddress) {
  SysfsTree sysfs;
  sysfs.Gpu("pci0000:80/0000:80:01.0/0000:81:00.0", 1);
  sysfs.Gpu("pci0000:00/0000:00:01.0/0000:01:00.0", 0);
  sysfs.Function("pci0000:00/0000:00:03.0", "0x10de", "0x030000", 0);  // shows a screen
  sysfs.Function("pci0000:00/0000:00:02.0", "0x1a03", "0x030000", 0);  // the board's own
  sysfs.Function("pci0000:00/0000:00:01.0/0000:01:00.1", "0x10de", "0x040300", 0);  // sound
  sysfs.Nic("pci0000:00/0000:00:05.0", "mlx5_0");
  sysfs.Bridge("pci0000:00/0000:00:01.0");
  std::vector<std::string> addresses;
  for (const PciPlace& gpu : GpusLike(sysfs.root(), PlaceOf(sysfs.root(), "0000:81:00.0"))) {
    addresses.push_back(gpu.address);
    EXPECT_FALSE(gpu.bridges.empty()) << gpu.address;
  }
  EXPECT_EQ(addresses, (std::vector<std::string>{"0000:00:03.0", "0000:01:00.0", "0000:81:00.0"}));
}

TEST(GpusLike, IsNoneWhereSysfsDoesNotHaveIt) {
  SysfsTree sysfs;
  sysfs.Gpu("pci0000:00/0000:01:00.0");
  EXPECT_TRUE(GpusLike(sysfs.root(), PlaceOf(sysfs.root(), "0000:99:00.0")).empty());
  EXPECT_TRUE(GpusLike("/no/such/root", {"0000:01:00.0", {}, -1, ""}).empty());
}

}  // namespace
}  // namespace janus::dataplane
