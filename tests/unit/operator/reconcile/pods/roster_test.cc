#include "operator/reconcile/pods/roster.h"

#include <gtest/gtest.h>

#include <functional>

namespace janus::control {
namespace {

using std::chrono::seconds;

PodSeen Pod(int64_t id, bool is_ready) {
  PodSeen pod;
  pod.id = id;
  pod.uid = "u" + std::to_string(id);
  pod.name = "chat-experts-r-" + std::to_string(id);
  pod.ip = "10.0.0." + std::to_string(id);
  pod.containers_ready = is_ready;
  pod.created = WallTime(seconds(1000));
  return pod;
}

RoleWanted Wanted(int pods) {
  return {.instances = pods, .revision = "r", .rolls = true, .now = WallTime(seconds(1100))};
}

TEST(AwaitedPod, IsOneThatComesAndNoneThatCannot) {
  std::vector<PodSeen> pods = {Pod(1, true), Pod(2, false)};
  EXPECT_EQ(AwaitedPod(pods, Wanted(2), {"u1"}), "chat-experts-r-2");
  EXPECT_EQ(AwaitedPod(pods, Wanted(1), {"u1"}), "") << "enough are there";
  const std::function<void(PodSeen&)> hopeless[] = {
      [](PodSeen& pod) { pod.unplaceable = "no room"; },
      [](PodSeen& pod) { pod.crash_loop = "no model"; },
      [](PodSeen& pod) { pod.is_leaving = true; },
      [](PodSeen& pod) { pod.created = WallTime(seconds(500)); },
  };
  for (const auto& change : hopeless) {
    pods[1] = Pod(2, false);
    change(pods[1]);
    EXPECT_EQ(AwaitedPod(pods, Wanted(2), {"u1"}), "");
  }
}

TEST(AwaitedRestart, IsOfOneThatServesAndForAMoment) {
  std::vector<PodSeen> pods = {Pod(1, true), Pod(2, false)};
  pods[1].unready_since = WallTime(seconds(1095));
  const std::set<std::string> committed = {"u1", "u2"};
  const auto awaited = AwaitedRestart(pods, Wanted(2), {"u1"}, committed);
  ASSERT_TRUE(awaited);
  EXPECT_EQ(awaited->name, "chat-experts-r-2");
  EXPECT_EQ(awaited->until, WallTime(seconds(1095)) + kRestartAwaitedFor);
  EXPECT_FALSE(AwaitedRestart(pods, Wanted(1), {"u1"}, committed)) << "enough are there";
  EXPECT_FALSE(AwaitedRestart(pods, Wanted(2), {"u1"}, {"u1"})) << "nobody knows it yet";
  const std::function<void(PodSeen&)> hopeless[] = {
      [](PodSeen& pod) { pod.crash_loop = "no model"; },
      [](PodSeen& pod) { pod.is_leaving = true; },
      [](PodSeen& pod) { pod.has_started = true; },  // it hangs
      [](PodSeen& pod) { pod.unready_since = WallTime(seconds(1100)) - kRestartAwaitedFor; },
      [](PodSeen& pod) { pod.unready_since = {}; },
      [](PodSeen& pod) { pod.unready_since = WallTime(seconds(1100)) + kRestartAwaitedFor; },
  };
  for (const auto& change : hopeless) {
    pods[1] = Pod(2, false);
    pods[1].unready_since = WallTime(seconds(1095));
    change(pods[1]);
    EXPECT_FALSE(AwaitedRestart(pods, Wanted(2), {"u1"}, committed));
  }
}

TEST(AliveInstances, AreThoseThatCouldServeWhetherReadyOrNot) {
  std::vector<PodSeen> pods = {Pod(1, true), Pod(2, false), Pod(3, true), Pod(4, true)};
  pods[1].restarts = 3;
  pods[2].is_lost = true;
  pods[3].ip.clear();
  const std::set<InstanceId> wanted = {{Role::kAttention, "u1", 0, 0},
                                       {Role::kAttention, "u2", 0, 3}};
  EXPECT_EQ(AliveInstances(pods), wanted);
}

TEST(WorkerAtPodIp, WritesAddressesAsGrpcReadsThem) {
  PodSeen pod = Pod(7, true);
  EXPECT_EQ(WorkerAtPodIp(pod, 0).address, "10.0.0.7:9000");
  EXPECT_EQ(WorkerAtPodIp(pod, 0).exchange_address, "tcp:10.0.0.7:9001");
  pod.ip = "fd00::7";
  EXPECT_EQ(WorkerAtPodIp(pod, 0).address, "[fd00::7]:9000");
}

TEST(WorkerAtPodIp, InstancesOfAPodHavePortsAndASocketOfTheirOwn) {
  PodSeen pod = Pod(7, true);
  pod.instances = 2;
  const WorkerSeen one = WorkerAtPodIp(pod, 1);
  EXPECT_EQ(one.index, 1);
  EXPECT_EQ(one.address, "10.0.0.7:9010");
  EXPECT_EQ(one.exchange_address, "tcp:10.0.0.7:9011,unix:/run/janus/exchange-1");
  EXPECT_EQ(one.domain, WorkerAtPodIp(pod, 0).domain);
}

TEST(WorkerAtPodIp, PodsOfAMachineThatShareMemoryAreOneNode) {
  PodSeen a = Pod(7, true), b = Pod(8, true);
  for (PodSeen* const pod : {&a, &b}) {
    pod->shares_host = true;
    pod->node = "machine-1";
  }
  const WorkerSeen one = WorkerAtPodIp(a, 0), two = WorkerAtPodIp(b, 0);
  EXPECT_EQ(one.node, "machine/machine-1");
  EXPECT_EQ(one.domain, two.domain);
  EXPECT_EQ(one.exchange_address, "tcp:10.0.0.7:9001,unix:/run/janus-host/" + a.uid + "-0");
  EXPECT_NE(one.exchange_address, two.exchange_address);
  b.node = "machine-2";
  EXPECT_NE(WorkerAtPodIp(b, 0).domain, one.domain);
}

}  // namespace
}  // namespace janus::control
