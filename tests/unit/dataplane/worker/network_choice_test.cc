#include "dataplane/worker/network_choice.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "common/fd.h"
#include "common/read_file.h"
#include "tests/support/contains.h"
#include "tests/support/sysfs_tree.h"

namespace janus::dataplane {
namespace {

constexpr int64_t kGigabit = 1'000'000'000;

RdmaDevice Device(const std::string& name, std::vector<std::string> bridges) {
  return {name,
          {"at " + name, std::move(bridges), 0, ""},
          {{1, true, LinkLayer::kInfiniBand, 400 * kGigabit}}};
}

class NetworkChoiceTest : public testing::Test {
 protected:
  NetworkChoiceTest() {
    here_.devices = {Device("mlx5_0", {"pci0000:00"}), Device("mlx5_1", {"pci0000:3a", "a"})};
    here_.interfaces = {"eth0"};
    here_.user = {"0000:3b:00.0", {{"0000:3b:00.0", {"pci0000:3a", "a", "b"}, 0, ""}}, 0};
  }
  NetworkChoice Choose(ExchangeTransport transport = ExchangeTransport::kAuto) {
    return *Try(transport);
  }
  Result<NetworkChoice> Try(ExchangeTransport transport) {
    return ChooseNetwork(transport, here_, Logger(log_.get()));
  }
  std::string log() const {
    return ReadFile("/proc/self/fd/" + std::to_string(log_.get())).value();
  }

  const Fd log_{memfd_create("log", MFD_CLOEXEC)};
  NetworkHere here_;
};

TEST_F(NetworkChoiceTest, IsTheDeviceNearestToTheGpuAndTheInterfacesBesideIt) {
  const NetworkChoice choice = Choose();
  EXPECT_EQ(choice.transports, "rc,dc,tcp");
  EXPECT_EQ(choice.devices, "mlx5_1:1,eth0");
  const ExchangeDevice expected{"mlx5_1", 1, "InfiniBand", 400 * kGigabit,
                                "same PCIe switch as GPU 0000:3b:00.0"};
  EXPECT_EQ(choice.device, expected);
  for (const char* part : {"message=\"RDMA device of the exchange\"", "for=\"GPU 0000:3b:00.0\"",
                           "device=mlx5_1", "port=1", "link_layer=InfiniBand",
                           "rate=\"400 Gbit/s\"", "why=\"same PCIe switch as GPU 0000:3b:00.0\"",
                           "passed_over=\"mlx5_0:1 (same NUMA node 0, InfiniBand, 400 Gbit/s)\"",
                           "ucx_net_devices=mlx5_1:1,eth0"}) {
    EXPECT_TRUE(Contains(log(), part));
  }
}

TEST_F(NetworkChoiceTest, TheUsersListStandsAsItIs) {
  here_.named = "eth0,mlx5_0:1";
  const NetworkChoice choice = Choose();
  EXPECT_EQ(choice.transports, "rc,dc,tcp");
  EXPECT_EQ(choice.devices, "eth0,mlx5_0:1");
  EXPECT_EQ(choice.device.device, "mlx5_0");
  EXPECT_EQ(choice.device.why, "named by UCX_NET_DEVICES");
  EXPECT_TRUE(Contains(log(), "why=\"named by UCX_NET_DEVICES\""));
}

TEST_F(NetworkChoiceTest, AListWithoutRdmaIsForTcp) {
  here_.named = "eth0";
  const NetworkChoice choice = Choose();
  EXPECT_EQ(choice.transports, "tcp");
  EXPECT_EQ(choice.devices, "eth0");
  EXPECT_EQ(choice.device, ExchangeDevice());
  EXPECT_TRUE(Contains(log(), "reason=\"UCX_NET_DEVICES names no RDMA port that is up\""));
  EXPECT_TRUE(Contains(log(), "ucx_net_devices=eth0"));
}

TEST_F(NetworkChoiceTest, TcpIsWithoutRdmaAndWithTheUsersList) {
  NetworkChoice choice = Choose(ExchangeTransport::kTcp);
  EXPECT_EQ(choice.transports, "tcp");
  EXPECT_EQ(choice.devices, "");
  EXPECT_EQ(choice.device, ExchangeDevice());
  EXPECT_TRUE(Contains(log(), "reason=\"the service's transport is TCP\""));
  EXPECT_TRUE(Contains(log(), "ucx_net_devices=all"));
  here_.named = "mlx5_0:1,eth0";
  choice = Choose(ExchangeTransport::kTcp);
  EXPECT_EQ(choice.transports, "tcp");
  EXPECT_EQ(choice.devices, "mlx5_0:1,eth0");
  EXPECT_EQ(choice.device, ExchangeDevice());
  EXPECT_EQ(log().find("names no RDMA"), std::string::npos);
}

TEST_F(NetworkChoiceTest, RdmaIsWithoutTcpAndWithoutInterfaces) {
  NetworkChoice choice = Choose(ExchangeTransport::kRdma);
  EXPECT_EQ(choice.transports, "rc,dc");
  EXPECT_EQ(choice.devices, "mlx5_1:1");
  EXPECT_EQ(choice.device.device, "mlx5_1");
  here_.named = "mlx5_0:1,eth0";
  choice = Choose(ExchangeTransport::kRdma);
  EXPECT_EQ(choice.transports, "rc,dc");
  EXPECT_EQ(choice.devices, "mlx5_0:1,eth0");
}

TEST_F(NetworkChoiceTest, RdmaFailsWithoutADeviceThatIsUpAndSaysWhatIsMissing) {
  const auto message = [&] {
    const Result<NetworkChoice> choice = Try(ExchangeTransport::kRdma);
    EXPECT_EQ(choice.status().code(), StatusCode::kFailedPrecondition);
    return std::string(choice.status().message());
  };
  here_.devices[0].ports[0].is_up = false;
  here_.devices[1].is_usable = false;
  here_.devices[1].ports.clear();
  EXPECT_TRUE(Contains(message(),
                       "exchange transport RDMA: mlx5_0 has no port that is up, mlx5_1 "
                       "is not given to this process; "));
  here_.named = "eth0";
  EXPECT_TRUE(Contains(message(), "UCX_NET_DEVICES names no RDMA port that is up"));
  here_.named.clear();
  here_.devices.clear();
  EXPECT_TRUE(Contains(message(),
                       "exchange transport RDMA: this machine has no RDMA device; give "
                       "this worker a device that is up, or use Auto"));
}

TEST_F(NetworkChoiceTest, OnlyNvidiasDevicesTellUcxTheFamilyOfADatagram) {
  EXPECT_FALSE(Choose().checks_datagrams);
  here_.devices[1].vendor = 0x02c9;
  EXPECT_TRUE(Choose().checks_datagrams);
  here_.named = "mlx5_0:1";
  EXPECT_FALSE(Choose().checks_datagrams) << "the other device is chosen";
}

TEST_F(NetworkChoiceTest, SaysWhyThereIsNone) {
  here_.devices.clear();
  here_.user = {"", {}, 1};
  EXPECT_EQ(Choose().transports, "tcp");
  EXPECT_TRUE(Contains(log(), "for=\"CPUs on NUMA node 1\""));
  EXPECT_TRUE(Contains(log(), "reason=\"this machine has no RDMA device\""));
  here_.devices = {Device("mlx5_0", {}), Device("mlx5_1", {}), Device("mlx5_2", {})};
  here_.devices[0].ports[0].is_up = false;
  here_.devices[1].ports.clear();
  here_.devices[2].is_usable = false;
  here_.devices[2].ports.clear();
  const NetworkChoice choice = Choose();
  EXPECT_EQ(choice.transports, "tcp");
  EXPECT_EQ(choice.devices, "");
  EXPECT_TRUE(Contains(log(),
                       "mlx5_0 has no port that is up, mlx5_1 cannot be opened, mlx5_2 is not "
                       "given to this process"));
}

TEST(LookForNetwork, FindsTheGpuByTheAddressOfItsMaker) {
  SysfsTree sysfs;
  sysfs.Gpu("pci0000:3a/0000:3a:00.0/0000:3b:00.0", 1);
  sysfs.Gpu("pci0000:5d/0000:5d:00.0/0000:5e:00.0", 1);
  sysfs.Nic("pci0000:3a/0000:3a:01.0/0000:3c:00.0", "made-up_0", 1);
  setenv("UCX_NET_DEVICES", "made-up_0:1", 1);
  const NetworkHere here = LookForNetwork("0000:3B:00.0", sysfs.root());
  unsetenv("UCX_NET_DEVICES");
  EXPECT_EQ(here.user.gpu, "0000:3b:00.0");
  ASSERT_EQ(here.user.gpus.size(), 2u);
  EXPECT_EQ(here.user.gpus[0].bridges, (std::vector<std::string>{"pci0000:3a", "0000:3a:00.0"}));
  EXPECT_EQ(here.user.gpus[1].address, "0000:5e:00.0");
  bool has_device = false;
  for (const RdmaDevice& device : here.devices) has_device |= device.name == "made-up_0";
  EXPECT_TRUE(has_device);
  EXPECT_EQ(here.named, "made-up_0:1");
}

TEST(LookForNetwork, IsForTheCpuWhereThereIsNoGpu) {
  SysfsTree sysfs;
  sysfs.Gpu("pci0000:3a/0000:3b:00.0", 1);
  for (const char* gpu : {"", "what is that"}) {
    const NetworkHere here = LookForNetwork(gpu, sysfs.root());
    EXPECT_EQ(here.user.gpu, "") << gpu;
    EXPECT_TRUE(here.user.gpus.empty()) << gpu;
    EXPECT_GE(here.user.numa_node, 0);
    EXPECT_EQ(here.named, "");
  }
}

}  // namespace
}  // namespace janus::dataplane
