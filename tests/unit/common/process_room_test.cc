#include "common/process_room.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temp_folder.h"

namespace janus {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// A machine of 1024 MiB with 512 MiB available; the process holds 3 MiB.
class ProcessRoomTest : public testing::Test {
 protected:
  ProcessRoomTest() {
    Write("proc/meminfo", "MemTotal: 1048576 kB\nMemFree: 9 kB\nMemAvailable: 524288 kB\n");
    Write("proc/self/status",
          "Name: worker\nVmRSS: 9999 kB\nRssAnon: 2048 kB\nRssFile: 7777 kB\nRssShmem: 1024 kB\n");
    Write("proc/self/cgroup", "0::/\n");
  }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = folder_.path() + "/" + path;
    std::filesystem::create_directories(whole.parent_path());
    folder_.Write(path, text);
  }
  ProcessRoom Room() {
    const Result<ProcessRoom> room = ReadProcessRoom(folder_.path());
    EXPECT_TRUE(room.ok()) << room.status().ToString();
    return room.ok() ? *room : ProcessRoom{};
  }

  const TempFolder folder_;
};

TEST_F(ProcessRoomTest, WithoutLimitsItIsWhatTheMachineHasFreeAndTheProcessHolds) {
  const ProcessRoom room = Room();
  EXPECT_EQ(room.memory_bytes, (512 + 3) * kMiB);
  EXPECT_FALSE(room.memory_is_limited);
  EXPECT_GE(room.cores, 1);
  EXPECT_FALSE(room.cores_are_limited);
}

TEST_F(ProcessRoomTest, ReadsTheLimitsOfVersionTwoAsAContainerSeesThem) {
  Write("sys/fs/cgroup/memory.max", "104857600\n");
  Write("sys/fs/cgroup/cpu.max", "100000 100000\n");
  const ProcessRoom room = Room();
  EXPECT_EQ(room.memory_bytes, 100 * kMiB);
  EXPECT_TRUE(room.memory_is_limited);
  EXPECT_EQ(room.cores, 1);
  EXPECT_TRUE(room.cores_are_limited);
}

TEST_F(ProcessRoomTest, TakesTheLeastOfAGroupAndThoseAboveIt) {
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("sys/fs/cgroup/a/b/memory.max", "max\n");
  Write("sys/fs/cgroup/a/memory.max", "209715200\n");
  Write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  const ProcessRoom room = Room();
  EXPECT_EQ(room.memory_bytes, 200 * kMiB);
  EXPECT_FALSE(room.cores_are_limited);
}

TEST_F(ProcessRoomTest, ReadsTheLimitsOfVersionOneInAContainerThatSeesItsOwnGroupAlone) {
  Write("proc/self/cgroup",
        "4:memory:/kubepods/pod1/x\n2:cpu,cpuacct:/kubepods/pod1/x\n1:name=systemd:/\n0::/\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "52428800\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  const ProcessRoom room = Room();
  EXPECT_EQ(room.memory_bytes, 50 * kMiB);
  EXPECT_TRUE(room.memory_is_limited);
  EXPECT_EQ(room.cores, 1) << "a core and a half is one to compute with";
  EXPECT_TRUE(room.cores_are_limited);
}

TEST_F(ProcessRoomTest, TheLargestNumberOfVersionOneIsNoLimit) {
  Write("proc/self/cgroup", "4:memory:/\n2:cpu:/\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(Room().memory_is_limited);
  EXPECT_FALSE(Room().cores_are_limited);
}

TEST_F(ProcessRoomTest, ALimitBeyondTheMachineIsTheMachine) {
  Write("sys/fs/cgroup/memory.max", "4294967296\n");
  EXPECT_EQ(Room().memory_bytes, 1024 * kMiB);
}

TEST(ProcessRoom, ProcessesThatShareItDivideMemoryAndCoresButNotTheirDevices) {
  const ProcessRoom whole{.memory_bytes = 8 * kMiB,
                          .memory_is_limited = true,
                          .cores = 7,
                          .cores_are_limited = true,
                          .device_memory_bytes = 5 * kMiB};
  const ProcessRoom share = ShareOf(whole, 3);
  EXPECT_EQ(share.memory_bytes, 8 * kMiB / 3);
  EXPECT_TRUE(share.memory_is_limited);
  EXPECT_EQ(share.cores, 2);
  EXPECT_EQ(share.device_memory_bytes, 5 * kMiB);
  EXPECT_EQ(ShareOf(whole, 8).cores, 1);
  EXPECT_EQ(ShareOf(whole, 1).memory_bytes, whole.memory_bytes);
  const ProcessRoom machine{.memory_bytes = 8 * kMiB, .cores = 7};
  EXPECT_EQ(ShareOf(machine, 3).memory_bytes, machine.memory_bytes);
  EXPECT_EQ(ShareOf(machine, 3).cores, machine.cores);
}

TEST(ProcessRoom, IsKnownHere) {
  const Result<ProcessRoom> room = ReadProcessRoom();
  ASSERT_TRUE(room.ok()) << room.status().ToString();
  EXPECT_GT(room->memory_bytes, kMiB);
  EXPECT_GE(room->cores, 1);
}

}  // namespace
}  // namespace janus
