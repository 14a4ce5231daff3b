#include "dataplane/comm/transport/ucx/rdma_choice.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "tests/support/contains.h"
#include "tests/support/sysfs_tree.h"

namespace janus::dataplane {
namespace {

constexpr int64_t kGigabit = 1'000'000'000;

RdmaPort Port(int number, int gigabits = 400, bool is_up = true) {
  return {number, is_up, LinkLayer::kInfiniBand, gigabits * kGigabit};
}

// A device with one port, at these bridges.
RdmaDevice Device(const std::string& name, std::vector<std::string> bridges, int numa_node = -1,
                  int gigabits = 400) {
  return {name, {"at " + name, std::move(bridges), numa_node, ""}, {Port(1, gigabits)}};
}

RdmaUser OnGpu(std::vector<std::string> bridges, int numa_node = -1) {
  return {"0000:3b:00.0", {{"0000:3b:00.0", std::move(bridges), numa_node, ""}}, 0};
}

RdmaUser OnCpu(int numa_node) {
  return {"", {}, numa_node};
}

std::string ChosenOf(const std::vector<RdmaDevice>& devices, const RdmaUser& user) {
  const auto choice = ChooseRdmaDevice(devices, user);
  return choice ? choice->device + ":" + std::to_string(choice->port) : "none";
}

std::string WhyOf(const std::vector<RdmaDevice>& devices, const RdmaUser& user) {
  const auto choice = ChooseRdmaDevice(devices, user);
  return choice ? choice->why : "none";
}

const std::vector<std::string> kGpu = {"pci0000:3a", "root", "switch", "below"};

TEST(ChooseRdmaDevice, GoesByTheWayToTheGpu) {
  const RdmaDevice deepest =
      Device("mlx5_8", {"pci0000:3a", "root", "switch", "below", "x"}, 1, 25);
  const RdmaDevice upper = Device("mlx5_7", {"pci0000:3a", "root", "switch", "z"}, 1);
  const RdmaDevice host = Device("mlx5_6", {"pci0000:3a", "y"}, 1);
  const RdmaDevice node = Device("mlx5_5", {"pci0000:4a", "root"}, 1);
  const RdmaDevice any = Device("mlx5_0", {"pci0000:80", "root"}, 0, 800);
  const RdmaUser user = OnGpu(kGpu, 1);
  std::vector<RdmaDevice> devices = {any, node, host, upper, deepest};
  EXPECT_EQ(ChosenOf(devices, user), "mlx5_8:1") << "the deepest switch, however slow";
  EXPECT_EQ(WhyOf(devices, user), "same PCIe switch as GPU 0000:3b:00.0");
  devices.pop_back();
  EXPECT_EQ(ChosenOf(devices, user), "mlx5_7:1");
  EXPECT_EQ(WhyOf(devices, user), "same PCIe switch as GPU 0000:3b:00.0");
  devices.pop_back();
  EXPECT_EQ(ChosenOf(devices, user), "mlx5_6:1");
  EXPECT_EQ(WhyOf(devices, user), "same PCIe host bridge pci0000:3a as GPU 0000:3b:00.0");
  devices.pop_back();
  EXPECT_EQ(ChosenOf(devices, user), "mlx5_5:1");
  EXPECT_EQ(WhyOf(devices, user), "same NUMA node 1 as GPU 0000:3b:00.0");
  devices.pop_back();
  EXPECT_EQ(ChosenOf(devices, user), "mlx5_0:1");
  EXPECT_EQ(WhyOf(devices, user),
            "any, as none is known to be near GPU 0000:3b:00.0 on NUMA node 1");
  devices.pop_back();
  EXPECT_EQ(ChosenOf(devices, user), "none");
}

TEST(ChooseRdmaDevice, TakesTheFasterOfThoseThatAreAsNearThenTheFirstByName) {
  const RdmaUser user = OnGpu(kGpu);
  EXPECT_EQ(ChosenOf({Device("mlx5_0", kGpu, 1, 200), Device("mlx5_1", kGpu, 1, 400)}, user),
            "mlx5_1:1");
  // Only the order of names matters.
  EXPECT_EQ(ChosenOf({Device("mlx5_10", kGpu), Device("mlx5_2", kGpu)}, user), "mlx5_2:1");
  EXPECT_EQ(ChosenOf({Device("mlx5_2", kGpu), Device("mlx5_10", kGpu)}, user), "mlx5_2:1");
}

TEST(ChooseRdmaDevice, LooksAtPortsThatAreUpAlone) {
  RdmaDevice near = Device("mlx5_0", kGpu, 1);
  const RdmaDevice far = Device("mlx5_1", {"pci0000:80"}, 0);
  const RdmaUser user = OnGpu(kGpu, 1);
  near.ports = {Port(1, 400, false), Port(2, 100)};
  EXPECT_EQ(ChosenOf({near, far}, user), "mlx5_0:2");
  near.ports = {Port(1, 100), Port(2, 400)};
  EXPECT_EQ(ChosenOf({near, far}, user), "mlx5_0:2") << "the faster of its two";
  near.ports = {Port(1, 400, false)};
  EXPECT_EQ(ChosenOf({near, far}, user), "mlx5_1:1");
  near.ports.clear();
  EXPECT_EQ(ChosenOf({near, far}, user), "mlx5_1:1") << "it cannot be opened";
  EXPECT_EQ(ChosenOf({near}, user), "none");
  EXPECT_EQ(ChosenOf({}, user), "none");
}

TEST(ChooseRdmaDevice, SaysWhatItIs) {
  RdmaDevice device = Device("mlx5_3", kGpu);
  device.ports = {{2, true, LinkLayer::kEthernet, 200 * kGigabit}};
  const auto choice = ChooseRdmaDevice(std::vector{device}, OnGpu(kGpu));
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->device, "mlx5_3");
  EXPECT_EQ(choice->port, 2);
  EXPECT_EQ(choice->link, LinkLayer::kEthernet);
  EXPECT_EQ(choice->bits_per_second, 200 * kGigabit);
  EXPECT_TRUE(choice->passed_over.empty());
}

TEST(ChooseRdmaDevice, NamesThoseThatArePassedOver) {
  RdmaDevice down = Device("mlx5_0", kGpu);
  down.ports[0].is_up = false;
  RdmaDevice hidden = Device("mlx5_1", kGpu);
  hidden.ports.clear();
  hidden.is_usable = false;
  RdmaDevice closed = Device("mlx5_2", {"pci0000:3a", "y"}, 1);
  closed.ports.clear();
  RdmaDevice two = Device("mlx5_3", {"pci0000:4a"}, 1);
  two.ports = {Port(1), Port(2, 100)};
  RdmaDevice part = Device("mlx5_4", {"pci0000:80"}, 0, 0);
  part.place.part_of = "0000:81:00.0";
  const RdmaDevice unknown = Device("rxe0", {}, -1, 25);
  const auto choice =
      ChooseRdmaDevice(std::vector{down, hidden, closed, two, part, unknown}, OnGpu(kGpu, 1));
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->device, "mlx5_3");
  EXPECT_EQ(choice->port, 1);
  EXPECT_EQ(choice->passed_over,
            (std::vector<std::string>{
                "mlx5_0:1 (same PCIe switch, down)",
                "mlx5_1 (same PCIe switch, not given to this process)",
                "mlx5_2 (same PCIe host bridge pci0000:3a, cannot be opened)",
                "mlx5_3:2 (same NUMA node 1, InfiniBand, 100 Gbit/s)",
                "mlx5_4:1 (other NUMA node 0, part of 0000:81:00.0, InfiniBand, an unknown rate)",
                "rxe0:1 (NUMA node not known, InfiniBand, 25 Gbit/s)"}));
}

TEST(ChooseRdmaDevice, OfACpuIsOnTheNodeOfItsCores) {
  const std::vector<RdmaDevice> devices = {
      Device("mlx5_0", {"pci0000:00"}, 0), Device("mlx5_1", {"pci0000:80"}, 1, 100),
      Device("mlx5_2", {"pci0000:80"}, 1, 200), Device("mlx5_3", {"pci0000:80"}, 1, 200)};
  EXPECT_EQ(ChosenOf(devices, OnCpu(0)), "mlx5_0:1");
  EXPECT_EQ(WhyOf(devices, OnCpu(0)), "same NUMA node 0 as the CPUs");
  EXPECT_EQ(ChosenOf(devices, OnCpu(1)), "mlx5_2:1");
  EXPECT_EQ(WhyOf(devices, OnCpu(1)), "same NUMA node 1 as the CPUs") << "nothing is dealt";
  EXPECT_EQ(ChosenOf(devices, OnCpu(7)), "mlx5_0:1") << "none there: the fastest";
  EXPECT_EQ(WhyOf(devices, OnCpu(7)), "any, as none is known to be near the CPUs on NUMA node 7");
  EXPECT_EQ(ChosenOf({Device("mlx5_0", {"pci0000:00"}, -1)}, OnCpu(-1)), "mlx5_0:1");
}

TEST(ChooseRdmaDevice, OfAGpuThatSysfsDoesNotHaveIsTheFastest) {
  const RdmaUser user{"0000:3b:00.0", {}, 0};
  const std::vector<RdmaDevice> devices = {Device("mlx5_0", kGpu, 0, 100),
                                           Device("mlx5_1", kGpu, 1, 200),
                                           Device("mlx5_2", kGpu, 1, 200)};
  EXPECT_EQ(ChosenOf(devices, user), "mlx5_1:1");
  EXPECT_EQ(WhyOf(devices, user), "any, as sysfs does not say where GPU 0000:3b:00.0 is");
}

// A machine's hardware, and the choices of all its GPUs.
class Machine {
 public:
  SysfsTree sysfs;
  std::vector<RdmaDevice> devices;

  // As libibverbs lists it.
  void Nic(const std::string& path, const std::string& name, int numa_node = -1) {
    sysfs.Nic(path, name, numa_node);
    devices.push_back({name, {}, {Port(1)}});
  }
  void VirtualNic(const std::string& path, const std::string& name, const std::string& part_of) {
    sysfs.VirtualNic(path, name, part_of);
    devices.push_back({name, {}, {Port(1)}});
  }
  RdmaUser On(const std::string& gpu) const {
    return {gpu, GpusLike(sysfs.root(), PlaceOf(sysfs.root(), gpu)), 0};
  }
  std::optional<RdmaChoice> Choose(const std::string& gpu) {
    std::vector<RdmaDevice> placed = devices;
    AddFromSysfs(sysfs.root(), placed);
    return ChooseRdmaDevice(placed, On(gpu));
  }
  std::vector<std::string> ChooseAll(const std::vector<std::string>& gpus) {
    std::vector<std::string> chosen;
    for (const std::string& gpu : gpus) {
      const auto choice = Choose(gpu);
      chosen.push_back(choice ? choice->device + ":" + std::to_string(choice->port) : "none");
    }
    return chosen;
  }
};

std::string Hex(int number) {
  char text[8];
  (void)std::snprintf(text, sizeof text, "%02x", static_cast<unsigned>(number));
  return text;
}

// Like NVIDIA's machines with eight GPUs: four switches, each with two GPUs and two devices, two
// switches per socket. Also a device for storage and one for users, each on a separate root port.
TEST(ChooseRdmaDevice, OfEightGpusBehindSwitchesIsOneEach) {
  Machine machine;
  std::vector<std::string> gpus;
  machine.Nic("pci0000:f0/0000:f0:01.0/0000:f1:00.0", "mlx5_8", 1);
  machine.Nic("pci0000:00/0000:00:01.0/0000:01:00.0", "mlx5_9", 0);
  for (int s = 0; s < 4; ++s) {
    const int bus = 0x10 + 0x20 * s;
    const int node = s / 2;
    const std::string host = "pci0000:" + Hex(bus);
    const std::string port = host + "/0000:" + Hex(bus) + ":01.0";
    const std::string up = port + "/0000:" + Hex(bus + 1) + ":00.0";
    machine.sysfs.Bridge(port);
    machine.sysfs.Bridge(up);
    for (int i = 0; i < 4; ++i) {
      const std::string down = up + "/0000:" + Hex(bus + 2) + ":0" + std::to_string(i) + ".0";
      machine.sysfs.Bridge(down);
      const std::string address = "0000:" + Hex(bus + 3 + i) + ":00.0";
      if (i < 2) {
        machine.sysfs.Gpu(down + "/" + address, node);
        gpus.push_back(address);
      } else {
        machine.Nic(down + "/" + address, "mlx5_" + std::to_string(2 * s + i - 2), node);
      }
    }
  }
  EXPECT_EQ(machine.ChooseAll(gpus),
            (std::vector<std::string>{"mlx5_0:1", "mlx5_1:1", "mlx5_2:1", "mlx5_3:1", "mlx5_4:1",
                                      "mlx5_5:1", "mlx5_6:1", "mlx5_7:1"}));
  EXPECT_EQ(machine.Choose(gpus[5])->why,
            "same PCIe switch as GPU " + gpus[5] +
                ", number 2 of 2 that are dealt among the GPUs as near to them");
  // If one device behind a switch is down, both GPUs there share the other.
  machine.devices[2].ports[0].is_up = false;
  ASSERT_EQ(machine.devices[2].name, "mlx5_0");
  EXPECT_EQ(machine.ChooseAll({gpus[0], gpus[1], gpus[2]}),
            (std::vector<std::string>{"mlx5_1:1", "mlx5_1:1", "mlx5_2:1"}));
  EXPECT_EQ(machine.Choose(gpus[0])->why, "same PCIe switch as GPU " + gpus[0]);
  EXPECT_TRUE(
      Contains(machine.Choose(gpus[0])->passed_over[0], "mlx5_0:1 (same PCIe switch, down)"));
}

// A virtual machine with all devices on one bus.
TEST(ChooseRdmaDevice, OfEightGpusOnOneBusIsOneEach) {
  Machine machine;
  std::vector<std::string> gpus;
  for (int i = 0; i < 8; ++i) {
    gpus.push_back("0000:00:" + Hex(0x08 + i) + ".0");
    machine.sysfs.Gpu("pci0000:00/" + gpus.back());
    machine.Nic("pci0000:00/0000:00:" + Hex(0x10 + i) + ".0", "mlx5_" + std::to_string(i));
  }
  EXPECT_EQ(machine.ChooseAll(gpus),
            (std::vector<std::string>{"mlx5_0:1", "mlx5_1:1", "mlx5_2:1", "mlx5_3:1", "mlx5_4:1",
                                      "mlx5_5:1", "mlx5_6:1", "mlx5_7:1"}));
  EXPECT_EQ(machine.Choose(gpus[2])->why,
            "same PCIe host bridge pci0000:00 as GPU 0000:00:0a.0, number 3 of 8 that are dealt "
            "among the GPUs as near to them");
}

// A virtual machine with a separate host bridge for each device.
TEST(ChooseRdmaDevice, OfGpusInDomainsOfTheirOwnIsByNodeOneEach) {
  for (const bool says_nodes : {true, false}) {
    Machine machine;
    std::vector<std::string> gpus;
    for (int i = 0; i < 4; ++i) {
      const std::string n = std::to_string(i);
      gpus.push_back("000" + n + ":00:00.0");
      const int node = says_nodes ? 1 - i / 2 : -1;
      machine.sysfs.Gpu("LNXSYSTM:00/VMBUS:00/pci000" + n + ":00/" + gpus.back(), node);
      machine.Nic("LNXSYSTM:00/VMBUS:00/pci010" + n + ":00/010" + n + ":00:02.0", "mlx5_" + n,
                  says_nodes ? i / 2 : -1);
    }
    EXPECT_EQ(machine.ChooseAll(gpus),
              says_nodes
                  ? (std::vector<std::string>{"mlx5_2:1", "mlx5_3:1", "mlx5_0:1", "mlx5_1:1"})
                  : (std::vector<std::string>{"mlx5_0:1", "mlx5_1:1", "mlx5_2:1", "mlx5_3:1"}));
    EXPECT_EQ(machine.Choose(gpus[1])->why,
              says_nodes ? "same NUMA node 1 as GPU 0001:00:00.0, number 2 of 2 that are dealt "
                           "among the GPUs as near to them"
                         : "any, as none is known to be near GPU 0001:00:00.0, number 2 of 4 that "
                           "are dealt among the GPUs as near to them");
  }
}

TEST(ChooseRdmaDevice, OfMoreGpusThanDevicesIsSharedEvenly) {
  Machine machine;
  std::vector<std::string> gpus;
  for (int i = 0; i < 5; ++i) {
    gpus.push_back("0000:00:" + Hex(0x08 + i) + ".0");
    machine.sysfs.Gpu("pci0000:00/" + gpus.back());
  }
  machine.Nic("pci0000:00/0000:00:10.0", "mlx5_0");
  machine.Nic("pci0000:00/0000:00:11.0", "mlx5_1");
  EXPECT_EQ(machine.ChooseAll(gpus),
            (std::vector<std::string>{"mlx5_0:1", "mlx5_1:1", "mlx5_0:1", "mlx5_1:1", "mlx5_0:1"}));
}

// A GPU's turn counts only GPUs with the same best ports.
TEST(ChooseRdmaDevice, IsDealtAmongThoseThatAreAsNear) {
  Machine machine;
  machine.sysfs.Gpu("pci0000:10/0000:10:01.0/0000:11:00.0");
  machine.sysfs.Gpu("pci0000:20/0000:20:01.0/0000:21:00.0");
  machine.Nic("pci0000:10/0000:10:02.0/0000:12:00.0", "mlx5_0");
  machine.Nic("pci0000:20/0000:20:02.0/0000:22:00.0", "mlx5_1");
  machine.Nic("pci0000:20/0000:20:03.0/0000:23:00.0", "mlx5_2");
  EXPECT_EQ(machine.ChooseAll({"0000:11:00.0", "0000:21:00.0"}),
            (std::vector<std::string>{"mlx5_0:1", "mlx5_1:1"}));
}

TEST(ChooseRdmaDevice, DealsTheSecondPortsAfterTheFirstOfAll) {
  Machine machine;
  std::vector<std::string> gpus;
  for (int i = 0; i < 4; ++i) {
    gpus.push_back("0000:00:" + Hex(0x08 + i) + ".0");
    machine.sysfs.Gpu("pci0000:00/" + gpus.back());
  }
  machine.Nic("pci0000:00/0000:00:10.0", "mlx4_0");
  machine.Nic("pci0000:00/0000:00:11.0", "mlx4_1");
  for (RdmaDevice& device : machine.devices) device.ports = {Port(1), Port(2)};
  EXPECT_EQ(machine.ChooseAll(gpus),
            (std::vector<std::string>{"mlx4_0:1", "mlx4_1:1", "mlx4_0:2", "mlx4_1:2"}));
}

// The first remaining port of a device comes first, whatever its number.
TEST(ChooseRdmaDevice, DealsByThePortsThatAreLeftOver) {
  Machine machine;
  machine.sysfs.Gpu("pci0000:00/0000:00:08.0");
  machine.sysfs.Gpu("pci0000:00/0000:00:09.0");
  machine.Nic("pci0000:00/0000:00:10.0", "mlx4_0");
  machine.Nic("pci0000:00/0000:00:11.0", "mlx4_1");
  machine.Nic("pci0000:00/0000:00:12.0", "mlx4_2");
  machine.devices[1].ports = {Port(1, 40), Port(2)};
  EXPECT_EQ(machine.ChooseAll({"0000:00:08.0", "0000:00:09.0"}),
            (std::vector<std::string>{"mlx4_0:1", "mlx4_1:2"}));
}

// Virtual functions of one card share its wire, so only one of them is dealt.
TEST(ChooseRdmaDevice, CountsAWireOnceHoweverManyFunctionsItHas) {
  Machine machine;
  std::vector<std::string> gpus;
  for (int i = 0; i < 4; ++i) {
    gpus.push_back("0000:00:" + Hex(0x08 + i) + ".0");
    machine.sysfs.Gpu("pci0000:00/" + gpus.back());
  }
  machine.Nic("pci0000:00/0000:00:10.0", "mlx5_4");
  machine.VirtualNic("pci0000:00/0000:00:10.1", "mlx5_0", "0000:00:10.0");
  machine.VirtualNic("pci0000:00/0000:00:10.2", "mlx5_1", "0000:00:10.0");
  machine.VirtualNic("pci0000:00/0000:00:11.1", "mlx5_2", "0000:00:11.0");
  machine.VirtualNic("pci0000:00/0000:00:11.2", "mlx5_3", "0000:00:11.0");
  EXPECT_EQ(machine.ChooseAll(gpus),
            (std::vector<std::string>{"mlx5_4:1", "mlx5_2:1", "mlx5_4:1", "mlx5_2:1"}));
}

TEST(ChooseRdmaDevice, OfAVirtualFunctionGoesByItsOwnPlace) {
  Machine machine;
  const std::string up = "pci0000:3a/0000:3a:00.0/0000:3b:00.0";
  machine.sysfs.Gpu(up + "/0000:3c:00.0/0000:3d:00.0", 1);
  machine.Nic("pci0000:17/0000:17:00.0/0000:18:00.0", "mlx5_0", 0);
  machine.VirtualNic(up + "/0000:3c:01.0/0000:3e:00.4", "mlx5_1", "0000:3e:00.0");
  EXPECT_EQ(machine.ChooseAll({"0000:3d:00.0"}), (std::vector<std::string>{"mlx5_1:1"}));
  EXPECT_EQ(machine.Choose("0000:3d:00.0")->why, "same PCIe switch as GPU 0000:3d:00.0");
}

// A pod with one of the machine's devices: it sees the others but cannot use them.
TEST(ChooseRdmaDevice, InAContainerIsWhatItWasGiven) {
  Machine machine;
  machine.sysfs.Gpu("pci0000:10/0000:10:01.0/0000:11:00.0", 0);
  machine.sysfs.Gpu("pci0000:20/0000:20:01.0/0000:21:00.0", 1);
  machine.sysfs.Nic("pci0000:20/0000:20:02.0/0000:22:00.0", "mlx5_0", 1);
  machine.Nic("pci0000:10/0000:10:02.0/0000:12:00.0", "mlx5_1", 0);
  const auto choice = machine.Choose("0000:21:00.0");
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->device, "mlx5_1");
  EXPECT_EQ(choice->why, "any, as none is known to be near GPU 0000:21:00.0 on NUMA node 1");
  EXPECT_EQ(choice->passed_over,
            (std::vector<std::string>{
                "mlx5_0 (same PCIe host bridge pci0000:20, not given to this process)"}));
}

TEST(NamedRdmaDevice, IsTheFirstOfTheListThatIsUp) {
  RdmaDevice down = Device("mlx5_2", kGpu);
  down.ports[0].is_up = false;
  RdmaDevice two = Device("mlx5_1", kGpu);
  two.ports = {Port(1, 100), Port(2, 200)};
  const std::vector<RdmaDevice> devices = {Device("mlx5_0", kGpu), two, down,
                                           Device("mlx5_10", kGpu)};
  const auto name = [&](std::string_view list) {
    const auto choice = NamedRdmaDevice(devices, list);
    return choice ? choice->device + ":" + std::to_string(choice->port) : "none";
  };
  EXPECT_EQ(name("mlx5_1:2,mlx5_0:1"), "mlx5_1:2");
  EXPECT_EQ(name("eth0,mlx5_10:1,mlx5_0:1"), "mlx5_10:1");
  EXPECT_EQ(name("mlx5_1"), "mlx5_1:1");
  EXPECT_EQ(name("mlx5_2:1,mlx5_0:1"), "mlx5_0:1");
  EXPECT_EQ(name("mlx5_[1-2]:*"), "mlx5_1:1");
  EXPECT_EQ(name("^mlx5_0:1,mlx5_1:1"), "mlx5_1:2");
  EXPECT_EQ(name("^mlx5*"), "none");
  EXPECT_EQ(name("eth0"), "none");
  EXPECT_EQ(name("mlx5_2:1"), "none");
  EXPECT_EQ(name("mlx5_1:3"), "none");
  EXPECT_EQ(NamedRdmaDevice(devices, "mlx5_10:1")->why, "named by UCX_NET_DEVICES");
  EXPECT_EQ(NamedRdmaDevice(devices, "mlx5_10:1")->passed_over.size(), 4u);
  EXPECT_EQ(NamedRdmaDevice(devices, "mlx5_10:1")->passed_over[0],
            "mlx5_0:1 (InfiniBand, 400 Gbit/s)");
}

}  // namespace
}  // namespace janus::dataplane
