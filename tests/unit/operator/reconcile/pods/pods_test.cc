#include "operator/reconcile/pods/pods.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "operator/api/json.h"
#include "tests/support/random.h"

namespace janus::control {
namespace {

using std::chrono::seconds;

PodSeen Pod(int64_t id, const std::string& revision = "new") {
  PodSeen pod;
  pod.id = id;
  pod.uid = "u" + std::to_string(id);
  pod.name = "chat-experts-" + revision + "-" + std::to_string(id);
  pod.revision = revision;
  pod.containers_ready = true;
  return pod;
}

PodSeen NotReady(PodSeen pod) {
  pod.containers_ready = false;
  return pod;
}

RoleWanted Wanted(int pods) {
  return {.instances = pods, .revision = "new", .rolls = true, .now = WallTime(seconds(100'000))};
}

std::set<std::string> Uids(std::initializer_list<int64_t> ids) {
  std::set<std::string> out;
  for (const int64_t id : ids) out.insert("u" + std::to_string(id));
  return out;
}

std::vector<std::string> Names(const std::vector<PodRemoval>& removed) {
  std::vector<std::string> out;
  for (const PodRemoval& one : removed) out.push_back(one.uid);
  std::sort(out.begin(), out.end());
  return out;
}

using Uid = std::vector<std::string>;

TEST(PlanPods, MakesAllAtOnceWhereThereIsNone) {
  const PodPlan plan = PlanPods({}, Wanted(3), {});
  EXPECT_EQ(plan.create(), 3);
  EXPECT_TRUE(plan.members.empty());
  EXPECT_TRUE(plan.remove.empty());
}

TEST(PlanPods, IsDoneWhenAllServe) {
  const std::vector<PodSeen> pods = {Pod(1), Pod(2)};
  const PodPlan plan = PlanPods(pods, Wanted(2), Uids({1, 2}));
  EXPECT_EQ(plan.create(), 0);
  EXPECT_EQ(plan.members, (Uid{"u1", "u2"}));
  EXPECT_TRUE(plan.remove.empty());
}

TEST(PlanPods, OnlyWhoCanBePreparedBecomesAMember) {
  const std::vector<PodSeen> pods = {NotReady(Pod(1)), Pod(2)};
  const PodPlan plan = PlanPods(pods, Wanted(2), {});
  EXPECT_EQ(plan.create(), 0) << "it starts";
  EXPECT_EQ(plan.members, Uid{"u2"});
}

TEST(PlanPods, AMemberLeavesTheTopologyBeforeItIsDeleted) {
  const std::vector<PodSeen> pods = {Pod(1), Pod(2), Pod(3)};
  PodPlan plan = PlanPods(pods, Wanted(2), Uids({1, 2, 3}));
  EXPECT_EQ(plan.members, (Uid{"u1", "u2"})) << "the youngest goes";
  EXPECT_TRUE(plan.remove.empty()) << "it serves";
  plan = PlanPods(pods, Wanted(2), Uids({1, 2}));
  EXPECT_EQ(Names(plan.remove), Uid{"u3"});
}

TEST(PlanPods, WhileNothingServesPodsOfAnEarlierRevisionGoAtOnce) {
  const std::vector<PodSeen> pods = {Pod(1, "old"), NotReady(Pod(2, "old")), Pod(3)};
  const PodPlan plan = PlanPods(pods, Wanted(2), {});
  EXPECT_EQ(plan.create(), 1);
  EXPECT_EQ(plan.members, Uid{"u3"});
  EXPECT_EQ(Names(plan.remove), (Uid{"u1", "u2"}));
  RoleWanted paused = Wanted(2);
  paused.rolls = false;
  EXPECT_EQ(PlanPods(pods, paused, {}).members, (Uid{"u1", "u3"}));
}

TEST(PlanPods, WhoIsTooManyAndNotReadyGoesFirst) {
  const std::vector<PodSeen> pods = {NotReady(Pod(1)), Pod(2), Pod(3)};
  const PodPlan plan = PlanPods(pods, Wanted(2), Uids({2, 3}));
  EXPECT_EQ(plan.members, (Uid{"u2", "u3"}));
  EXPECT_EQ(Names(plan.remove), Uid{"u1"});
}

TEST(PlanPods, WhatEndedOrIsLostIsReplacedAtOnceAndRemovedOnceTheTopologyIsWithoutIt) {
  std::vector<PodSeen> pods = {Pod(1), Pod(2), Pod(3)};
  pods[1].has_ended = true;
  pods[2].is_lost = true;
  PodPlan plan = PlanPods(pods, Wanted(3), Uids({1, 2, 3}));
  EXPECT_EQ(plan.create(), 2);
  EXPECT_EQ(plan.members, Uid{"u1"});
  EXPECT_TRUE(plan.remove.empty());
  plan = PlanPods(pods, Wanted(3), Uids({1}));
  EXPECT_EQ(Names(plan.remove), (Uid{"u2", "u3"}));
}

TEST(PlanPods, WhatEndsAsSoonAsItIsMadeIsMadeAnewOnceAMinute) {
  RoleWanted wanted = Wanted(2);
  std::vector<PodSeen> pods = {Pod(1), NotReady(Pod(2))};
  pods[1].has_ended = true;
  pods[1].created = wanted.now - seconds(1);
  PodPlan plan = PlanPods(pods, wanted, Uids({1}));
  EXPECT_EQ(plan.create(), 0);
  EXPECT_TRUE(plan.remove.empty()) << "it says why";
  EXPECT_EQ(PlanPods(pods, wanted, Uids({1, 2})).create(), 1) << "it has served";
  EXPECT_EQ(PlanPods(pods, Wanted(3), Uids({1})).create(), 1) << "for the other one";
  wanted.now += kFailedPause;
  plan = PlanPods(pods, wanted, Uids({1}));
  EXPECT_EQ(plan.create(), 1);
  EXPECT_EQ(Names(plan.remove), Uid{"u2"});
}

TEST(PlanPods, WhoMustLeaveServesUntilSomebodyIsInItsPlace) {
  std::vector<PodSeen> pods = {Pod(1), Pod(2), Pod(3)};
  pods[0].must_leave = "node a is cordoned";
  pods[1].must_leave = "node a is cordoned";
  PodPlan plan = PlanPods(pods, Wanted(3), Uids({1, 2, 3}));
  EXPECT_EQ(plan.create(), 2) << "for all that must leave at once";
  EXPECT_EQ(plan.members, (Uid{"u1", "u2", "u3"}));

  pods.push_back(NotReady(Pod(4)));
  pods.push_back(NotReady(Pod(5)));
  plan = PlanPods(pods, Wanted(3), Uids({1, 2, 3}));
  EXPECT_EQ(plan.create(), 0);
  EXPECT_EQ(plan.members, (Uid{"u1", "u2", "u3"}));

  pods[3].containers_ready = true;
  plan = PlanPods(pods, Wanted(3), Uids({1, 2, 3}));
  EXPECT_EQ(plan.members, (Uid{"u1", "u3", "u4"}));
  EXPECT_TRUE(plan.remove.empty());

  pods[4].containers_ready = true;
  plan = PlanPods(pods, Wanted(3), Uids({3, 4, 5}));
  EXPECT_EQ(Names(plan.remove), (Uid{"u1", "u2"}));
  EXPECT_EQ(plan.remove[0].reason, "node a is cordoned");
}

TEST(PlanPods, ARolloutGoesPodByPod) {
  std::vector<PodSeen> pods = {Pod(1, "old"), Pod(2, "old")};
  PodPlan plan = PlanPods(pods, Wanted(2), Uids({1, 2}));
  EXPECT_EQ(plan.create(), 1);
  pods.push_back(NotReady(Pod(3)));
  plan = PlanPods(pods, Wanted(2), Uids({1, 2}));
  EXPECT_EQ(plan.create(), 0) << "one at a time";
  pods[2].containers_ready = true;
  plan = PlanPods(pods, Wanted(2), Uids({1, 2}));
  EXPECT_EQ(plan.members, (Uid{"u1", "u3"}));
  EXPECT_TRUE(plan.remove.empty());
  plan = PlanPods(pods, Wanted(2), Uids({1, 3}));
  EXPECT_EQ(Names(plan.remove), Uid{"u2"});
}

TEST(PlanPods, WhileRolloutsRestOldPodsAreAsGoodAsNew) {
  const std::vector<PodSeen> pods = {Pod(1, "old")};
  RoleWanted wanted = Wanted(2);
  wanted.rolls = false;
  const PodPlan plan = PlanPods(pods, wanted, Uids({1}));
  EXPECT_EQ(plan.create(), 1);
  EXPECT_TRUE(plan.remove.empty());
}

TEST(PlanPods, AWorkerThatKeepsEndingCostsAPodEachTenMinutes) {
  std::vector<PodSeen> pods = {Pod(1), NotReady(Pod(2))};
  pods[1].crash_loop = "no such model";
  pods[1].created = WallTime(seconds(100'000)) - kCrashPause + seconds(1);
  PodPlan plan = PlanPods(pods, Wanted(2), Uids({1}));
  EXPECT_EQ(plan.create(), 0);
  EXPECT_TRUE(plan.remove.empty());
  pods[1].created -= seconds(1);
  plan = PlanPods(pods, Wanted(2), Uids({1}));
  EXPECT_EQ(plan.create(), 1);
  ASSERT_EQ(Names(plan.remove), Uid{"u2"});
  EXPECT_EQ(plan.remove[0].reason, "its worker keeps ending: no such model");
}

// Members of the topology crash-loop, and so do their replacements: one replacement of each per
// pause, not one after the other.
TEST(PlanPods, AReplacementThatCrashLoopsTooCostsOnePodPerPause) {
  for (const int wanted : {1, 3}) {
    std::vector<PodSeen> pods;
    std::set<std::string> committed;
    for (int id = 1; id <= wanted; ++id) {
      pods.push_back(NotReady(Pod(id)));
      pods.back().crash_loop = "no such model";
      pods.back().created = WallTime(seconds(0));
      committed.insert(pods.back().uid);
    }
    int made = 0;
    const seconds began(100'000), hour(3'600);
    for (seconds now = began; now < began + hour; ++now) {
      RoleWanted role = Wanted(wanted);
      role.now = WallTime(now);
      const PodPlan plan = PlanPods(pods, role, committed);
      for (const PodRemoval& gone : plan.remove) {
        ASSERT_FALSE(committed.contains(gone.uid));
        std::erase_if(pods, [&](const PodSeen& pod) { return pod.uid == gone.uid; });
      }
      for (int i = 0; i < plan.create(); ++i) {
        pods.push_back(NotReady(Pod(wanted + ++made)));
        pods.back().created = role.now;
        pods.back().crash_loop = "no such model";
      }
    }
    EXPECT_EQ(made, wanted * 6) << "in an hour, for " << wanted;
  }
}

TEST(PlanPods, ALeavingPodCountsForNothing) {
  std::vector<PodSeen> pods = {Pod(1), Pod(2)};
  pods[1].is_leaving = true;
  const PodPlan plan = PlanPods(pods, Wanted(2), Uids({1}));
  EXPECT_EQ(plan.create(), 1);
  EXPECT_EQ(plan.members, Uid{"u1"});
  EXPECT_TRUE(plan.remove.empty()) << "it goes already";
}

TEST(PlanPods, SuspendedEverythingGoesOnceTheTopologyIsGone) {
  const std::vector<PodSeen> pods = {Pod(1), Pod(2)};
  EXPECT_TRUE(PlanPods(pods, Wanted(0), Uids({1, 2})).remove.empty());
  EXPECT_EQ(Names(PlanPods(pods, Wanted(0), {}).remove), (Uid{"u1", "u2"}));
}

PodSeen Of(int instances, PodSeen pod) {
  pod.instances = instances;
  return pod;
}

RoleWanted Wanted(int instances, int per_pod) {
  RoleWanted out = Wanted(instances);
  out.per_pod = per_pod;
  return out;
}

using Sizes = std::vector<int>;

TEST(PlanPods, PodsAreFullButForTheLast) {
  EXPECT_EQ(PlanPods({}, Wanted(14, 8), {}).sizes, (Sizes{8, 6}));
  EXPECT_EQ(PlanPods({}, Wanted(3, 4), {}).sizes, Sizes{3});
  EXPECT_EQ(PlanPods({}, Wanted(8, 4), {}).sizes, (Sizes{4, 4}));
  RoleWanted wanted = Wanted(6, 4);
  wanted.standby = 1;
  EXPECT_EQ(PlanPods({}, wanted, {}).sizes, (Sizes{4, 4, 2})) << "the standby pod replaces any";
}

TEST(PlanPods, ACountThatAPodDoesNotHaveReplacesThatPod) {
  std::vector<PodSeen> pods = {Of(8, Pod(1)), Of(6, Pod(2))};
  PodPlan plan = PlanPods(pods, Wanted(13, 8), Uids({1, 2}));
  EXPECT_EQ(plan.sizes, Sizes{5});
  EXPECT_EQ(plan.members, (Uid{"u1", "u2"})) << "until its replacement is ready";
  EXPECT_TRUE(plan.remove.empty());
  pods.push_back(NotReady(Of(5, Pod(3))));
  plan = PlanPods(pods, Wanted(13, 8), Uids({1, 2}));
  EXPECT_EQ(plan.create(), 0);
  EXPECT_EQ(plan.members, (Uid{"u1", "u2"}));
  EXPECT_TRUE(plan.remove.empty()) << "the new one starts";
  pods[2].containers_ready = true;
  plan = PlanPods(pods, Wanted(13, 8), Uids({1, 2}));
  EXPECT_EQ(plan.members, (Uid{"u1", "u3"}));
  EXPECT_TRUE(plan.remove.empty()) << "it serves";
  plan = PlanPods(pods, Wanted(13, 8), Uids({1, 3}));
  ASSERT_EQ(Names(plan.remove), Uid{"u2"});
  EXPECT_EQ(plan.remove[0].reason, "a pod with another number of instances has taken its place");
}

TEST(PlanPods, APodThatGrowsServesUntilTheLargerOneIsReady) {
  std::vector<PodSeen> pods = {Of(2, Pod(1))};
  PodPlan plan = PlanPods(pods, Wanted(16, 8), Uids({1}));
  EXPECT_EQ(plan.sizes, (Sizes{8, 8}));
  EXPECT_EQ(plan.members, Uid{"u1"});
  pods.push_back(Of(8, Pod(2)));
  pods.push_back(NotReady(Of(8, Pod(3))));
  EXPECT_EQ(PlanPods(pods, Wanted(16, 8), Uids({1})).members, (Uid{"u1", "u2"}));
  pods[2].containers_ready = true;
  EXPECT_EQ(PlanPods(pods, Wanted(16, 8), Uids({1})).members, (Uid{"u2", "u3"}));
}

// From pods of one size to pods of another, with another count: the wanted pods serve in the end,
// and on the way there are never fewer instances than before or than wanted.
TEST(PlanPods, AnotherMaximumNeverServesWithFewerInstances) {
  for (const int before : {1, 5, 12, 14, 18}) {
    for (const int after : {1, 5, 12, 14, 18}) {
      for (const int from : {1, 2, 4, 8}) {
        for (const int to : {1, 2, 4, 8}) {
          SCOPED_TRACE(std::to_string(before) + " by " + std::to_string(from) + " to " +
                       std::to_string(after) + " by " + std::to_string(to));
          std::vector<PodSeen> pods;
          std::set<std::string> committed;
          int64_t next_id = 1;
          for (const int size : Wanted(before, from).Sizes()) {
            pods.push_back(Of(size, Pod(next_id++, from == to ? "new" : "old")));
            committed.insert(pods.back().uid);
          }
          size_t most = 0;
          for (int round = 0; round < 200; ++round) {
            const PodPlan plan = PlanPods(pods, Wanted(after, to), committed);
            committed = {plan.members.begin(), plan.members.end()};
            for (const PodRemoval& one : plan.remove) {
              ASSERT_FALSE(committed.contains(one.uid));
              std::erase_if(pods, [&](const PodSeen& pod) { return pod.uid == one.uid; });
            }
            int serving = 0;
            for (PodSeen& pod : pods) {
              pod.containers_ready = true;
              serving += committed.contains(pod.uid) ? pod.instances : 0;
            }
            ASSERT_GE(serving, std::min(before, after)) << round;
            for (const int size : plan.sizes) pods.push_back(NotReady(Of(size, Pod(next_id++))));
            most = std::max(most, pods.size());
          }
          Sizes sizes;
          for (const PodSeen& pod : pods) {
            sizes.push_back(pod.instances);
            EXPECT_TRUE(committed.contains(pod.uid) && pod.revision == "new");
          }
          std::sort(sizes.rbegin(), sizes.rend());
          EXPECT_EQ(sizes, Wanted(after, to).Sizes());
        }
      }
    }
  }
}

TEST(PlanPods, WhilePausedPodsOfAnySizeStayAndOnlyALostOneIsReplaced) {
  std::vector<PodSeen> pods = {Of(8, Pod(1, "old")), Of(6, Pod(2, "old"))};
  RoleWanted paused = Wanted(14, 4);
  paused.rolls = false;
  PodPlan plan = PlanPods(pods, paused, Uids({1, 2}));
  EXPECT_EQ(plan.create(), 0);
  EXPECT_EQ(plan.members, (Uid{"u1", "u2"}));
  pods[1].is_lost = true;
  plan = PlanPods(pods, paused, Uids({1, 2}));
  EXPECT_EQ(plan.sizes, (Sizes{4, 2}));
}

TEST(PlanPods, ARefusedPodKeepsItsOwnSizeWaiting) {
  RoleWanted wanted = Wanted(14, 8);
  std::vector<PodSeen> pods = {NotReady(Of(8, Pod(1)))};
  pods[0].has_ended = true;
  pods[0].created = wanted.now - seconds(1);
  EXPECT_EQ(PlanPods(pods, wanted, {}).sizes, Sizes{6});
}

// Random events happen to the pods, and each becomes ready at a random time. When events stop, the
// wanted number serves, in pods of the wanted sizes and revision, and no others are left. No member
// is deleted on the way.
TEST(PlanPods, ConvergesWhateverHappens) {
  for (uint64_t run = 1; run <= 300; ++run) {
    SCOPED_TRACE(run);
    std::mt19937_64 random(MixSeed(TestSeed(), run));
    const auto below = [&](uint64_t bound) { return random() % bound; };
    std::vector<PodSeen> pods;
    std::set<std::string> committed;
    RoleWanted wanted = Wanted(static_cast<int>(1 + below(6)));
    wanted.per_pod = run % 3 == 0 ? 1 : static_cast<int>(1 + below(4));
    int64_t next_id = 1;
    int64_t revision = 1;
    wanted.revision = "r1";
    for (int round = 0; round < 400; ++round) {
      wanted.now += seconds(10);
      if (round < 200) {
        switch (below(12)) {
          case 0:
            wanted.instances = static_cast<int>(1 + below(6));
            break;
          case 1:
            wanted.revision = "r" + std::to_string(++revision);
            break;
          case 2:
            if (!pods.empty()) pods[below(pods.size())].must_leave = "cordoned";
            break;
          case 3:
            if (!pods.empty()) pods[below(pods.size())].is_lost = true;
            break;
          case 4:
            if (!pods.empty()) pods[below(pods.size())].has_ended = true;
            break;
          default:
            break;
        }
      }
      for (PodSeen& pod : pods) {
        if (below(3) == 0 && pod.is_live()) pod.containers_ready = true;
      }
      const PodPlan plan = PlanPods(pods, wanted, committed);
      for (const PodRemoval& one : plan.remove) {
        ASSERT_FALSE(committed.contains(one.uid)) << one.uid;
        std::erase_if(pods, [&](const PodSeen& pod) { return pod.uid == one.uid; });
      }
      for (const int instances : plan.sizes) {
        PodSeen pod = NotReady(Of(instances, Pod(next_id++, wanted.revision)));
        pod.created = wanted.now;
        pods.push_back(pod);
      }
      // No topology without a role's last member is committed.
      if (!plan.members.empty() && below(2) == 0)
        committed = {plan.members.begin(), plan.members.end()};
    }
    Sizes sizes;
    for (const PodSeen& pod : pods) sizes.push_back(pod.instances);
    std::sort(sizes.rbegin(), sizes.rend());
    ASSERT_EQ(sizes, wanted.Sizes());
    EXPECT_EQ(committed.size(), pods.size());
    for (const PodSeen& pod : pods) {
      EXPECT_EQ(pod.revision, wanted.revision);
      EXPECT_TRUE(pod.must_leave.empty() && pod.is_live());
      EXPECT_TRUE(committed.contains(pod.uid));
    }
  }
}

Node Json(const std::string& text) {
  return *ParseJson(text, "test");
}

TEST(ReadPod, TakesWhatDecides) {
  const std::optional<PodSeen> pod = ReadPod(Json(R"({
    "metadata": {"name": "chat-experts-bcdfghjklm-17", "uid": "u", "creationTimestamp": "1970-01-01T00:01:40Z",
                 "labels": {"serving.janus.dev/role": "experts", "serving.janus.dev/revision": "bcdfghjklm",
                            "serving.janus.dev/member": "true"}},
    "spec": {"nodeName": "a"},
    "status": {"phase": "Running", "conditions": [{"type": "ContainersReady", "status": "True"},
                                                   {"type": "DisruptionTarget", "status": "True"}],
               "containerStatuses": [{"name": "worker", "restartCount": 4, "state": {"waiting":
                 {"reason": "CrashLoopBackOff", "message": "back-off"}},
                 "lastState": {"terminated": {"message": "no such model"}}}]}})"));
  ASSERT_TRUE(pod);
  EXPECT_EQ(pod->role, Role::kExperts);
  EXPECT_EQ(pod->id, 17);
  EXPECT_EQ(pod->revision, "bcdfghjklm");
  EXPECT_EQ(pod->node, "a");
  EXPECT_TRUE(pod->has_member_label);
  EXPECT_TRUE(pod->containers_ready);
  EXPECT_EQ(pod->restarts, 4);
  EXPECT_EQ(pod->crash_loop, "no such model");
  EXPECT_EQ(pod->created, WallTime(seconds(100)));
  EXPECT_FALSE(pod->must_leave.empty());
}

TEST(ReadPod, KnowsWhyItsContainersDoNotRun) {
  const auto read = [](const std::string& status) {
    return *ReadPod(Json(R"({"metadata": {"name": "chat-attention-r-1", "labels":
      {"serving.janus.dev/role": "attention"}}, "status": {)" +
                         status + "}}"));
  };
  const auto waits = [&](const std::string& list, const std::string& container,
                         const std::string& state) {
    return read("\"" + list + R"(": [{"name": ")" + container + R"(", "state": {"waiting": {)" +
                state + "}}}]");
  };
  PodSeen pod = waits("containerStatuses", "worker",
                      R"("reason": "ImagePullBackOff", "message": "Back-off pulling image")");
  EXPECT_EQ(pod.not_starting, "container worker: ImagePullBackOff: Back-off pulling image");
  EXPECT_EQ(pod.crash_loop, "");
  pod = waits("initContainerStatuses", "proxy", R"("reason": "CreateContainerConfigError")");
  EXPECT_EQ(pod.not_starting, "container proxy: CreateContainerConfigError");
  pod =
      waits("containerStatuses", "proxy", R"("reason": "CrashLoopBackOff", "message": "back-off")");
  EXPECT_EQ(pod.not_starting, "container proxy: CrashLoopBackOff: back-off");
  EXPECT_EQ(pod.crash_loop, "") << "of the worker alone, which is replaced for it";
  for (const char* usual : {"ContainerCreating", "PodInitializing"}) {
    pod = waits("containerStatuses", "worker", std::string(R"("reason": ")") + usual + "\"");
    EXPECT_EQ(pod.not_starting, "") << usual;
  }
  pod = read(R"("containerStatuses": [{"name": "worker", "state": {"waiting": {"reason":
    "CrashLoopBackOff"}}, "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137,
    "message": "loading layer 7\n"}}}])");
  EXPECT_EQ(pod.crash_loop, "loading layer 7 (OOMKilled, exit code 137)");
  EXPECT_EQ(pod.not_starting, "");
  EXPECT_FALSE(pod.has_started);
  EXPECT_TRUE(read(R"("containerStatuses": [{"name": "worker", "started": true}])").has_started);
  EXPECT_FALSE(read(R"("containerStatuses": [{"name": "worker", "started": false}])").has_started);
  pod = read(R"("phase": "Failed", "reason": "Evicted", "message": "low on memory")");
  EXPECT_EQ(WhyEnded(pod), "it has failed: Evicted: low on memory");
  EXPECT_EQ(WhyEnded(read(R"("phase": "Failed")")), "its containers have ended");
}

TEST(ReadPod, CountsTheGpusThatItHolds) {
  PodSeen pod = *ReadPod(Json(R"({"metadata": {"name": "chat-attention-r-1", "labels":
    {"serving.janus.dev/role": "attention"}}, "spec": {"containers": [
      {"name": "worker", "resources": {"limits": {"nvidia.com/gpu": "2", "memory": "1Gi"}}},
      {"name": "other", "resources": {"limits": {"amd.com/gpu": "1"}}}]}})"));
  EXPECT_EQ(pod.gpus, 3);
  EXPECT_EQ(pod.held_gpus(), 0) << "no node has given it any";
  pod.node = "a";
  EXPECT_EQ(pod.held_gpus(), 3);
  pod.is_leaving = true;
  EXPECT_EQ(pod.held_gpus(), 3);
  pod.has_ended = true;
  EXPECT_EQ(pod.held_gpus(), 0);
}

TEST(GpusOf, CountsSlicesAndSharesAsOneAndDevicesOfTheNetworkNot) {
  const auto limited = [](const std::string& limits) {
    return GpusOf(Json(R"({"spec": {"containers": [{"resources": {"limits": )" + limits + "}}]}}"));
  };
  EXPECT_EQ(limited(R"({"nvidia.com/mig-1g.10gb": "1", "cpu": "4"})"), 1);
  EXPECT_EQ(limited(R"({"nvidia.com/gpu.shared": "1", "rdma/hca_shared_devices_a": "1"})"), 1);
  EXPECT_EQ(limited(R"({"nvidia.com/hostdev": "1", "hugepages-2Mi": "1Gi"})"), 0);
}

TEST(ReadPod, KnowsWhyNoNodeTakesIt) {
  const auto read = [](const std::string& reason, const std::string& message) {
    return ReadPod(Json(R"({
      "metadata": {"name": "chat-attention-r-1", "labels": {"serving.janus.dev/role": "attention"}},
      "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
                 "reason": ")" +
                        reason + R"(", "message": ")" + message + R"("}]}})"));
  };
  for (const char* reason : {"Unschedulable", "SchedulingGated"}) {
    const std::optional<PodSeen> pod = read(reason, "0/2 nodes are available");
    ASSERT_TRUE(pod);
    EXPECT_EQ(pod->unplaceable, "0/2 nodes are available");
    EXPECT_FALSE(pod->containers_ready);
  }
  EXPECT_EQ(read("SchedulerError", "tried again")->unplaceable, "");
}

TEST(ReadPod, IsNothingForWhatIsNotOurs) {
  EXPECT_FALSE(ReadPod(Json(R"({"metadata": {"name": "chat-attention-r-1"}})")));
  EXPECT_FALSE(ReadPod(Json(
      R"({"metadata": {"name": "chat", "labels": {"serving.janus.dev/role": "attention"}}})")));
}

}  // namespace
}  // namespace janus::control
