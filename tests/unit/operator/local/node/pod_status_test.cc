#include "operator/local/node/pod_status.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "operator/api/rfc3339.h"
#include "operator/api/yaml.h"
#include "operator/kube/object.h"

namespace janus::control {
namespace {

using namespace std::chrono_literals;

constexpr MonotonicTime kNow{1000h};
constexpr WallTime kWall{495000h};

Node Unknown() {
  return *ParseYaml("{apiVersion: v1, kind: Pod, metadata: {name: chat-1}, spec: {}}", "test");
}
Node Gated() {
  return *ParseYaml(
      "{metadata: {name: chat-1}, spec: {readinessGates: [{conditionType: a}, {conditionType: b}]},"
      " status: {conditions: [{type: a, status: 'True', reason: Mine}]}}",
      "test");
}

Node Condition(const Node& pod, std::string_view type) {
  const Node* const list = FindAt(pod, {"status", "conditions"});
  if (list == nullptr) return {};
  const auto found = std::find_if(list->items.begin(), list->items.end(),
                                  [&](const Node& one) { return TextAt(one, {"type"}) == type; });
  return found == list->items.end() ? Node() : *found;
}
std::string Status(const Node& pod, std::string_view type) {
  return std::string(TextAt(Condition(pod, type), {"status"}));
}
std::string Since(const Node& pod, std::string_view type) {
  return std::string(TextAt(Condition(pod, type), {"lastTransitionTime"}));
}
const Node& Container(const Node& pod) {
  return FindAt(pod, {"status", "containerStatuses"})->items.at(0);
}

class PodStatusTest : public testing::Test {
 protected:
  Node Write(const Node& pod, bool is_started = true, bool is_ready = true, WallTime wall = kWall) {
    return WithStatus(pod, {run_, life_, "unix:/run/p1", is_started, is_ready, kWall - 5s}, kNow,
                      wall);
  }
  ContainerEnd Ended(int exit_code, int signal) {
    return {exit_code, signal, "its last words", kWall - 3s, kWall - 2s};
  }

  const ContainerRun run_ = [] {
    ContainerRun out;
    out.name = "worker";
    out.image = "worker:1";
    return out;
  }();
  ContainerLife life_{{.first = 30s, .longest = 60s, .forgotten_after = 60s}};
};

TEST_F(PodStatusTest, APodThatHasNotRunIsPending) {
  const Node pod = Write(Unknown(), false, false);
  EXPECT_EQ(TextAt(pod, {"status", "phase"}), "Pending");
  EXPECT_EQ(TextAt(pod, {"status", "podIP"}), "unix:/run/p1");
  EXPECT_EQ(TextAt(FindAt(pod, {"status", "podIPs"})->items.at(0), {"ip"}), "unix:/run/p1");
  EXPECT_EQ(TextAt(pod, {"status", "startTime"}), FormatTime(kWall - 5s));
  EXPECT_EQ(Status(pod, "PodScheduled"), "True");
  EXPECT_EQ(Status(pod, "Initialized"), "True");
  EXPECT_EQ(Status(pod, "ContainersReady"), "False");
  EXPECT_EQ(Status(pod, "Ready"), "False");
  EXPECT_EQ(TextAt(Condition(pod, "Ready"), {"reason"}), "ContainersNotReady");
  EXPECT_EQ(TextAt(Condition(pod, "Ready"), {"message"}),
            "containers with unready status: [worker]");
  const Node& container = Container(pod);
  EXPECT_EQ(TextAt(container, {"name"}), "worker");
  EXPECT_EQ(TextAt(container, {"image"}), "worker:1");
  EXPECT_EQ(TextAt(container, {"state", "waiting", "reason"}), "ContainerCreating");
  EXPECT_EQ(FindAt(container, {"lastState"}), nullptr);
  EXPECT_EQ(IntegerAt(container, {"restartCount"}), 0);
}

TEST_F(PodStatusTest, ARunningPodIsReadyWhenItsContainerIs) {
  life_.Started(kNow, kWall - 1s);
  const Node starting = Write(Unknown(), false, false);
  EXPECT_EQ(TextAt(starting, {"status", "phase"}), "Running");
  EXPECT_EQ(TextAt(Container(starting), {"state", "running", "startedAt"}), FormatTime(kWall - 1s));
  EXPECT_FALSE(FindAt(Container(starting), {"started"})->boolean);
  EXPECT_FALSE(FindAt(Container(starting), {"ready"})->boolean);
  const Node ready = Write(starting);
  EXPECT_EQ(Status(ready, "ContainersReady"), "True");
  EXPECT_EQ(Status(ready, "Ready"), "True");
  EXPECT_EQ(FindAt(Condition(ready, "Ready"), {"reason"}), nullptr);
  EXPECT_TRUE(FindAt(Container(ready), {"started"})->boolean);
  EXPECT_TRUE(FindAt(Container(ready), {"ready"})->boolean);
}

TEST_F(PodStatusTest, ReadinessGatesAreCountedInAndConditionsOfOthersStay) {
  life_.Started(kNow, kWall);
  const Node closed = Write(Gated());
  EXPECT_EQ(Status(closed, "ContainersReady"), "True");
  EXPECT_EQ(Status(closed, "Ready"), "False");
  EXPECT_EQ(TextAt(Condition(closed, "Ready"), {"reason"}), "ReadinessGatesNotReady");
  EXPECT_EQ(TextAt(Condition(closed, "Ready"), {"message"}), "the readiness gate b is not True");
  EXPECT_EQ(Condition(closed, "a"), Condition(Gated(), "a"));
  Node open = Gated();
  SetAt(open, {"status", "conditions"},
        *ParseYaml("[{type: a, status: 'True'}, {type: b, status: 'True'}]", "test"));
  EXPECT_EQ(Status(Write(open), "Ready"), "True");
  EXPECT_EQ(Status(Write(open, true, false), "Ready"), "False");
}

TEST_F(PodStatusTest, AConditionsTimeMovesWithItsStatusAlone) {
  life_.Started(kNow, kWall);
  const Node not_ready = Write(Gated(), true, false, kWall);
  const Node gate_closed = Write(not_ready, true, true, kWall + 10s);
  EXPECT_EQ(TextAt(Condition(gate_closed, "Ready"), {"reason"}), "ReadinessGatesNotReady");
  EXPECT_EQ(Since(gate_closed, "Ready"), FormatTime(kWall));  // False as before
  EXPECT_EQ(Since(gate_closed, "ContainersReady"), FormatTime(kWall + 10s));
  EXPECT_EQ(Since(gate_closed, "PodScheduled"), FormatTime(kWall));
}

TEST_F(PodStatusTest, TheSameSeenLaterIsTheSame) {
  life_.Started(kNow, kWall);
  const Node once = Write(Gated());
  EXPECT_EQ(Write(once, true, true, kWall + 3600s), once);
}

TEST_F(PodStatusTest, ARestartedContainerSaysHowItEnded) {
  life_.Started(kNow, kWall);
  life_.Ended(Ended(3, 0), kNow);
  const Node between = Write(Unknown(), false, false);
  EXPECT_EQ(TextAt(between, {"status", "phase"}), "Running");  // it will run again
  EXPECT_EQ(IntegerAt(Container(between), {"state", "terminated", "exitCode"}), 3);
  EXPECT_EQ(FindAt(Container(between), {"lastState"}), nullptr);
  life_.Started(kNow, kWall);
  const Node again = Write(between, false, false);
  const Node& container = Container(again);
  EXPECT_EQ(IntegerAt(container, {"restartCount"}), 1);
  EXPECT_NE(FindAt(container, {"state", "running"}), nullptr);
  EXPECT_EQ(FindAt(container, {"state", "terminated"}), nullptr);
  const FieldPath last = {"lastState", "terminated"};
  const Node& end = *FindAt(container, last);
  EXPECT_EQ(IntegerAt(end, {"exitCode"}), 3);
  EXPECT_EQ(FindAt(end, {"signal"}), nullptr);
  EXPECT_EQ(TextAt(end, {"reason"}), "Error");
  EXPECT_EQ(TextAt(end, {"message"}), "its last words");
  EXPECT_EQ(TextAt(end, {"startedAt"}), FormatTime(kWall - 3s));
  EXPECT_EQ(TextAt(end, {"finishedAt"}), FormatTime(kWall - 2s));
}

TEST_F(PodStatusTest, ASignalIsNamedAndACleanEndIsCompleted) {
  life_.Started(kNow, kWall);
  life_.Ended(Ended(0, 9), kNow);
  const Node killed = Write(Unknown(), false, false);
  EXPECT_EQ(IntegerAt(Container(killed), {"state", "terminated", "exitCode"}), 128 + 9);
  EXPECT_EQ(IntegerAt(Container(killed), {"state", "terminated", "signal"}), 9);
  EXPECT_EQ(TextAt(Container(killed), {"state", "terminated", "reason"}), "Error");
  ContainerLife other{{}};
  other.Ended({0, 0, "", kWall, kWall}, kNow);
  const Node done = WithStatus(Unknown(), {run_, other, "unix:/x"}, kNow, kWall);
  EXPECT_EQ(TextAt(Container(done), {"state", "terminated", "reason"}), "Completed");
  EXPECT_EQ(FindAt(Container(done), {"state", "terminated", "message"}), nullptr);
}

TEST_F(PodStatusTest, WhatKeepsEndingIsInCrashLoopBackOff) {
  for (int i = 0; i < 2; ++i) {
    life_.Started(kNow, kWall);
    life_.Ended(Ended(0, 6), kNow);
  }
  const Node pod = Write(Unknown(), false, false);
  EXPECT_EQ(TextAt(pod, {"status", "phase"}), "Running");
  const Node& container = Container(pod);
  EXPECT_EQ(TextAt(container, {"state", "waiting", "reason"}), "CrashLoopBackOff");
  EXPECT_EQ(TextAt(container, {"state", "waiting", "message"}),
            "back-off 30s restarting failed container=worker pod=chat-1");
  EXPECT_EQ(IntegerAt(container, {"lastState", "terminated", "signal"}), 6);
  EXPECT_EQ(IntegerAt(container, {"restartCount"}), 1);
}

TEST_F(PodStatusTest, APodThatCannotRunHereHasFailed) {
  const Node pod = WithFailure(Gated(), "NotForThisMachine", "there is no program", kWall);
  EXPECT_EQ(TextAt(pod, {"status", "phase"}), "Failed");
  EXPECT_EQ(TextAt(pod, {"status", "reason"}), "NotForThisMachine");
  EXPECT_EQ(TextAt(pod, {"status", "message"}), "there is no program");
  for (const char* type : {"ContainersReady", "Ready"}) {
    EXPECT_EQ(Status(pod, type), "False");
    EXPECT_EQ(TextAt(Condition(pod, type), {"reason"}), "NotForThisMachine");
    EXPECT_EQ(TextAt(Condition(pod, type), {"message"}), "there is no program");
    EXPECT_EQ(Since(pod, type), FormatTime(kWall));
  }
  EXPECT_EQ(Status(pod, "a"), "True");
  EXPECT_EQ(WithFailure(pod, "NotForThisMachine", "there is no program", kWall + 60s), pod);
}

}  // namespace
}  // namespace janus::control
