#include "operator/local/embedded/service_follower.h"

#include <gtest/gtest.h>

#include "operator/api/yaml.h"

namespace janus::control {
namespace {

using namespace std::chrono_literals;
using Kind = ContainerEvent::Kind;

constexpr MonotonicTime kBegin{100h};

// A service with one condition, and the serving epoch.
Node Service(const std::string& conditions = "", int epoch = 0) {
  return *ParseYaml("{status: {topology: {epoch: " + std::to_string(epoch) + "}, conditions: [" +
                        conditions + "]}}",
                    "test");
}
std::string Condition(const std::string& type, const std::string& status,
                      const std::string& reason = "Reason", const std::string& message = "why") {
  return "{type: " + type + ", status: '" + status + "', reason: " + reason + ", message: '" +
         message + "', lastTransitionTime: '2026-11-22T03:04:05Z'}";
}
const Node kNothing = Service();
const Node kLoading = Service(Condition("TopologyReady", "False", "Preparing"));
const Node kOpening = Service(Condition("TopologyReady", "True", "Committed"), 1);
const Node kServing = Service(Condition("Available", "True"), 1);

Node Pod(const std::string& name, bool is_ready, const std::string& more = "") {
  return *ParseYaml("{metadata: {name: " + name +
                        ", labels: {serving.janus.dev/role: attention}}, status: {" + more +
                        "conditions: [{type: ContainersReady, status: '" +
                        (is_ready ? "True" : "False") + "'}]}}",
                    "test");
}
ContainerEvent Ended(const std::string& text, bool expected = false) {
  return {Kind::kEnded, {"default", "chat-attention-r-1"}, "attention-1", "worker", text, expected};
}

class ServiceFollowerTest : public testing::Test {
 protected:
  Status At(std::chrono::seconds after, const Node& service, const std::vector<Node>& pods = {},
            const std::vector<ContainerEvent>& events = {}) {
    return follower_.Follow(service, pods, events, kBegin + after);
  }

  ServiceFollower follower_{{.log_dir = "/logs", .ready_timeout = 60s, .patience = 10s}, kBegin};
};

TEST_F(ServiceFollowerTest, GoesThroughThePhasesOfAStart) {
  EXPECT_EQ(follower_.phase(), ServicePhase::kStarting);
  EXPECT_TRUE(At(1s, Service(Condition("Available", "False"))).ok());
  EXPECT_EQ(follower_.phase(), ServicePhase::kStarting);
  EXPECT_TRUE(At(2s, kLoading).ok());
  EXPECT_EQ(follower_.phase(), ServicePhase::kLoading);
  EXPECT_TRUE(At(3s, kOpening).ok());
  EXPECT_EQ(follower_.phase(), ServicePhase::kOpening);
  EXPECT_FALSE(follower_.has_served());
  EXPECT_TRUE(At(4s, kServing).ok());
  EXPECT_EQ(follower_.phase(), ServicePhase::kServing);
  EXPECT_TRUE(follower_.has_served());
}

TEST_F(ServiceFollowerTest, CountsThePodsThatAreReady) {
  ASSERT_TRUE(At(1s, kNothing,
                 {Pod("chat-attention-r-1", true), Pod("chat-attention-r-2", false),
                  Pod("chat-attention-r-3", true), Pod("no-id", true)})
                  .ok());
  EXPECT_EQ(follower_.pods_ready(), 2);
  ASSERT_TRUE(At(2s, kNothing).ok());
  EXPECT_EQ(follower_.pods_ready(), 0);
}

TEST_F(ServiceFollowerTest, APrepareThatIsBegunAnewIsStillTheLoading) {
  ASSERT_TRUE(At(1s, kLoading).ok());
  ASSERT_TRUE(At(1000s, kNothing).ok());
  EXPECT_EQ(follower_.phase(), ServicePhase::kLoading);
  ASSERT_TRUE(At(1001s, kLoading).ok());
}

TEST_F(ServiceFollowerTest, WhatIsStalledOrHasNoRoomIsTold) {
  Status status =
      At(1s, Service(Condition("Stalled", "True", "InvalidSpec", "spec.x must not be y")));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "spec.x must not be y");
  status = At(1s, Service(Condition("CapacityAvailable", "False", "NoMemory", "needs 3 GiB")));
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "needs 3 GiB");
  EXPECT_TRUE(
      At(1s, Service(Condition("Stalled", "False") + ", " + Condition("CapacityAvailable", "True") +
                     ", " + Condition("Available", "Unknown")))
          .ok());
}

TEST_F(ServiceFollowerTest, WhatAWorkerSaysOfItsFilesIsToldBeforeThatAnyHasEnded) {
  const Node failed =
      Service(Condition("TopologyReady", "False", "PrepareFailed", "attention-1: no such tensor"));
  const Status status = At(1s, failed, {}, {Ended("attention-1 exited with status 1")});
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "loading: attention-1: no such tensor; logs: /logs");
}

TEST_F(ServiceFollowerTest, AProcessThatEndsEndsTheStart) {
  ContainerEvent ready = Ended("unix:/run/p1:9100");
  ready.kind = Kind::kReady;
  EXPECT_TRUE(At(1s, kNothing, {}, {ready, Ended("was told to", true)}).ok());
  for (const Node* service : {&kNothing, &kLoading, &kOpening}) {
    ServiceFollower follower({.log_dir = "/logs"}, kBegin);
    const std::vector<ContainerEvent> events = {Ended("expert-2 was ended by SIGSEGV"),
                                                Ended("attention-1 exited with status 1")};
    for (const std::vector<ContainerEvent>& of : {events, {}}) {  // it stays remembered
      const Status status = follower.Follow(*service, {}, of, kBegin + 1s);
      EXPECT_EQ(status.code(), StatusCode::kUnavailable);
      EXPECT_EQ(status.message(), "expert-2 was ended by SIGSEGV");  // the first one, which caused
                                                                     // the others
    }
  }
}

TEST_F(ServiceFollowerTest, AMemberThatIsNotReachedIsGivenSomeTime) {
  const Node lost =
      Service(Condition("TopologyReady", "False", "WorkerUnreachable", "expert-1: no answer"));
  EXPECT_TRUE(At(1s, lost).ok());
  EXPECT_TRUE(At(10s, lost).ok());
  EXPECT_TRUE(At(10s, kLoading).ok());  // reachable
  EXPECT_TRUE(At(12s, lost).ok());
  EXPECT_TRUE(At(21s, lost).ok());
  const Status status = At(22s, lost);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "loading: expert-1: no answer; logs: /logs");
}

TEST_F(ServiceFollowerTest, APodThatCannotRunHereIsTold) {
  const Status status =
      At(1s, kNothing,
         {Pod("chat-attention-r-1", true),
          Pod("chat-attention-r-2", false, "phase: Failed, message: 'there is no program', ")});
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "chat-attention-r-2: there is no program; logs: /logs");
}

TEST_F(ServiceFollowerTest, PodsThatAreNotReadyInTimeAreNamed) {
  const std::vector<Node> pods = {Pod("chat-attention-r-1", true),
                                  Pod("chat-attention-r-2", false)};
  EXPECT_TRUE(At(60s, kNothing, pods).ok());
  const Status status = At(61s, kNothing, pods);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(), "pod chat-attention-r-2 is not ready after 60 s; logs: /logs");
  EXPECT_EQ(At(61s, kNothing, {pods[0]}).message(),
            "the service is not ready after 60 s; logs: /logs");
}

TEST_F(ServiceFollowerTest, LoadingTakesAsLongAsItTakes) {
  EXPECT_TRUE(At(50s, kLoading).ok());
  EXPECT_TRUE(At(100'000s, kLoading).ok());
}

TEST_F(ServiceFollowerTest, TheGatewayHasItsOwnTime) {
  EXPECT_TRUE(At(100s, kOpening).ok());
  EXPECT_TRUE(At(160s, kOpening).ok());
  const Status status = At(161s, kOpening);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(), "the gateway is not ready after 60 s; logs: /logs");
}

TEST_F(ServiceFollowerTest, NothingEndsItOnceItHasServed) {
  ASSERT_TRUE(At(1s, kServing).ok());
  const Node down =
      Service(Condition("Stalled", "True") + ", " + Condition("CapacityAvailable", "False") + ", " +
              Condition("TopologyReady", "False", "PrepareFailed"));
  const Node lost = Service(Condition("TopologyReady", "False", "WorkerUnreachable"));
  const Node failed = Pod("chat-attention-r-2", false, "phase: Failed, message: no, ");
  for (const Node& service : {down, lost, kNothing}) {
    EXPECT_TRUE(At(2s, service, {failed}, {Ended("expert-2 was ended by SIGSEGV")}).ok());
    EXPECT_TRUE(At(100'000s, service, {failed}).ok());
    EXPECT_NE(follower_.phase(), ServicePhase::kServing);
    EXPECT_TRUE(follower_.has_served());
  }
}

}  // namespace
}  // namespace janus::control
