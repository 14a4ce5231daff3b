#include "operator/reconcile/status/status.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>

#include "operator/kube/object.h"
#include "operator/reconcile/objects/trees.h"
#include "operator/reconcile/status/reasons.h"

namespace janus::control {
namespace {

using std::chrono::seconds;

StatusFacts Whole() {
  StatusFacts seen;
  seen.generation = 3;
  seen.attention = {.role = Role::kAttention,
                    .desired = 2,
                    .pods = 2,
                    .ready = 2,
                    .updated = 2,
                    .committed = 2,
                    .current = 2};
  seen.experts = {.role = Role::kExperts,
                  .desired = 3,
                  .pods = 3,
                  .ready = 3,
                  .updated = 3,
                  .committed = 3,
                  .current = 3};
  seen.topology = {.name = "chat-1",
                   .epoch = 5,
                   .m = 2,
                   .n = 3,
                   .mode = "Direct",
                   .placement_hash = "abc",
                   .is_told = true};
  seen.gateways_available = seen.gateways_wanted = 2;
  seen.progressed = WallTime(seconds(1000));
  seen.now = WallTime(seconds(1100));
  return seen;
}

std::string MessageOf(const std::string& type, const StatusFacts& seen) {
  for (const Condition& one : ConditionsOf(seen)) {
    if (one.type == type) return one.message;
  }
  return "there is no " + type;
}

std::map<std::string, std::string> Said(const StatusFacts& seen) {
  std::map<std::string, std::string> out;
  for (const Condition& one : ConditionsOf(seen)) {
    const char* status = one.status == ConditionStatus::kTrue    ? "True/"
                         : one.status == ConditionStatus::kFalse ? "False/"
                                                                 : "Unknown/";
    out[one.type] = status + one.reason;
    EXPECT_TRUE(IsKnownReason(one.type, std::string(status, std::strlen(status) - 1), one.reason))
        << one.type << " " << status << one.reason << " is not in reasons.cc";
    EXPECT_EQ(one.observed_generation, seen.generation);
    EXPECT_FALSE(one.message.empty()) << one.type;
  }
  return out;
}

void Decide(const std::string& reason, StatusFacts& seen) {
  seen.scaling.is_scaled = true;
  seen.scaling.last.emplace().reason = reason;
}

void Judge(double ended, double attained, StatusFacts& seen) {
  seen.scaling.has_target = seen.scaling.is_judged = true;
  seen.scaling.share_wanted = 0.95;
  seen.scaling.ended = ended;
  seen.scaling.attained = attained;
}

TEST(ConditionsOf, AreAllOfThemInTheirOrder) {
  std::vector<std::string> types;
  for (const Condition& one : ConditionsOf(Whole())) types.push_back(one.type);
  EXPECT_EQ(types,
            (std::vector<std::string>(std::begin(kConditionTypes), std::end(kConditionTypes))));
}

TEST(ConditionsOf, AWholeServiceIsReady) {
  const auto said = Said(Whole());
  EXPECT_EQ(said.at("Ready"), "True/AsWanted");
  EXPECT_EQ(said.at("Available"), "True/Serving");
  EXPECT_EQ(said.at("Progressing"), "True/Complete");
  EXPECT_EQ(said.at("AttentionReady"), "True/AsWanted");
  EXPECT_EQ(said.at("ExpertsReady"), "True/AsWanted");
  EXPECT_EQ(said.at("TopologyReady"), "True/Committed");
  EXPECT_EQ(said.at("ScalingReady"), "True/Static");
  EXPECT_EQ(said.at("MetricsAvailable"), "Unknown/NotCollected");
  EXPECT_EQ(said.at("SLOMet"), "Unknown/NoTarget");
  EXPECT_EQ(said.at("CapacityAvailable"), "True/Sufficient");
  EXPECT_EQ(said.at("Stalled"), "False/Reconciling");
}

TEST(ConditionsOf, WhatIsTriedInVainIsInTheMessageOfProgressing) {
  const auto says = [](const StatusFacts& seen) {
    for (const Condition& one : ConditionsOf(seen)) {
      if (one.type == "Progressing") return one.reason + ": " + one.message;
    }
    return std::string();
  };
  StatusFacts seen = Whole();
  seen.fails = "create pod x: failed calling webhook";
  const std::string words = "; retrying: create pod x: failed calling webhook";
  EXPECT_EQ(says(seen), "Complete: everything matches the spec" + words);
  seen.experts.current = 2;
  EXPECT_EQ(says(seen), "Working: changes are being made" + words);
  seen.now = seen.progressed + kProgressDeadline;
  EXPECT_EQ(says(seen), "ProgressDeadlineExceeded: nothing has moved for 600 s" + words);
}

TEST(ConditionsOf, WhoServesMeanwhileIsInTheMessageOfARoleThatIsReplaced) {
  StatusFacts seen = Whole();
  seen.experts.outdated = seen.experts.current;
  seen.experts.current = 0;
  const int all = seen.experts.desired;
  EXPECT_EQ(MessageOf("ExpertsReady", seen), "0 of " + std::to_string(all) + " instances serve; " +
                                                 std::to_string(all) +
                                                 " of an earlier revision serve meanwhile");
}

TEST(ConditionsOf, OneThatServesMeanwhileServes) {
  StatusFacts seen = Whole();
  seen.attention.outdated = 1;
  seen.attention.current = 0;
  const std::string message = MessageOf("AttentionReady", seen);
  EXPECT_TRUE(message.ends_with("; 1 of an earlier revision serves meanwhile")) << message;
}

TEST(WithStatus, CountsTheGpusOfAllPods) {
  StatusFacts seen = Whole();
  seen.attention.gpus = 2;
  seen.experts.gpus = 3;
  seen.old_gpus = 4;
  const Node service = WithStatus(Node::Map(), seen);
  EXPECT_EQ(IntegerAt(service, {"status", "gpus"}), 9);
  const Node* const roles = FindAt(service, {"status", "roles"});
  ASSERT_NE(roles, nullptr);
  EXPECT_EQ(IntegerAt(roles->items.at(0), {"gpus"}), 2);
  EXPECT_EQ(IntegerAt(roles->items.at(1), {"gpus"}), 3);
}

TEST(ConditionsOf, MetricsAreThoseOfMembersThatWereHeard) {
  StatusFacts seen = Whole();
  seen.answers = EpochWatch::Answers::kAll;
  EXPECT_EQ(Said(seen).at("MetricsAvailable"), "True/Collected");
  seen.answers = EpochWatch::Answers::kNotAll;
  seen.unanswered = "experts-1 does not answer: deadline";
  EXPECT_EQ(Said(seen).at("MetricsAvailable"), "False/MembersSilent");
  EXPECT_EQ(Said(seen).at("Ready"), "True/AsWanted") << "they may serve all the same";
  seen.topology = {};
  EXPECT_EQ(Said(seen).at("MetricsAvailable"), "Unknown/NotCollected");
  seen = Whole();
  seen.answers = EpochWatch::Answers::kAll;
  seen.asleep = "the service is suspended";
  EXPECT_EQ(Said(seen).at("MetricsAvailable"), "Unknown/NotCollected");
}

TEST(HeldNumber, MovesByATwentieth) {
  EXPECT_EQ(HeldNumber(std::nullopt, std::nullopt), std::nullopt);
  EXPECT_EQ(HeldNumber(std::nullopt, 7), 7);
  EXPECT_EQ(HeldNumber(7, std::nullopt), 7);
  EXPECT_EQ(HeldNumber(1000, 1049), 1000);
  EXPECT_EQ(HeldNumber(1000, 1050), 1050);
  EXPECT_EQ(HeldNumber(1000, 951), 1000);
  EXPECT_EQ(HeldNumber(1000, 950), 950);
  EXPECT_EQ(HeldNumber(0, 1), 1);
  EXPECT_EQ(HeldNumber(1, 0), 0);
  EXPECT_EQ(HeldNumber(0, 0), 0);
}

// Every other reason, its cause, and whether the service is still Ready.
TEST(ConditionsOf, EveryReasonHasItsCause) {
  struct Case {
    const char* type;
    const char* said;
    const char* ready;
    std::function<void(StatusFacts&)> change;
  };
  const Case cases[] = {
      {"AttentionReady", "False/WaitingForPods", "False/WaitingForPods",
       [](StatusFacts& s) { s.attention.current = 1; }},
      {"ExpertsReady", "False/WaitingForPods", "False/WaitingForPods",
       [](StatusFacts& s) { s.experts.committed = 4; }},  // one still has to leave
      {"ExpertsReady", "False/CrashLooping", "False/CrashLooping",
       [](StatusFacts& s) {
         s.experts.current = 2;
         s.experts.crashing = "pod x: no model";
       }},
      {"ExpertsReady", "True/AsWanted", "True/AsWanted",
       [](StatusFacts& s) { s.experts.crashing = "pod x: no model"; }},
      {"ExpertsReady", "False/InsufficientCapacity", "False/InsufficientCapacity",
       [](StatusFacts& s) {
         s.experts.current = 2;
         s.experts.unplaceable = "pod x: no room";
       }},
      {"AttentionReady", "False/ContainerNotStarting", "False/ContainerNotStarting",
       [](StatusFacts& s) {  // more informative than that nothing serves
         s.topology = {};
         s.attention.current = s.attention.committed = 0;
         s.attention.not_starting = "pod x: container worker: ErrImagePull";
       }},
      {"ExpertsReady", "False/WaitingForPods", "False/WaitingForPods",
       [](StatusFacts& s) {
         s.topology = {};
         s.experts.current = 0;
       }},
      {"TopologyReady", "False/ModelUnknown", "False/ModelUnknown",
       [](StatusFacts& s) {
         s.topology = {};
         s.experts.current = 0;
         s.awaited = {"ModelUnknown", "no config.json"};
       }},
      {"ExpertsReady", "False/QuotaExceeded", "False/QuotaExceeded",
       [](StatusFacts& s) {
         s.experts.current = 2;
         s.experts.no_room = s.capacity = {"QuotaExceeded", "exceeded quota: small"};
       }},
      {"Progressing", "False/InsufficientCapacity", "False/InsufficientCapacity",
       [](StatusFacts& s) {  // everything wanted before the edit serves
         s.held_back = {"InsufficientCapacity", "the newest spec does not fit"};
       }},
      {"Progressing", "True/Working", "False/Replacing",
       [](StatusFacts& s) {
         s.held_back = {"Replacing", "spec.model has changed again"};
       }},
      {"CapacityAvailable", "False/InsufficientCapacity", "True/AsWanted",
       [](StatusFacts& s) { s.experts.unplaceable = "pod x: no room"; }},
      {"CapacityAvailable", "False/QuotaExceeded", "True/AsWanted",
       [](StatusFacts& s) {
         s.capacity = {"QuotaExceeded", "exceeded quota: small"};
       }},
      {"TopologyReady", "False/NoTopology", "False/NoTopology",
       [](StatusFacts& s) { s.topology = {}; }},
      {"Available", "False/NoTopology", "False/NoTopology",
       [](StatusFacts& s) { s.topology = {}; }},
      {"TopologyReady", "False/Preparing", "False/TopologyNotReady",
       [](StatusFacts& s) { s.topology.is_told = false; }},
      {"TopologyReady", "False/PrepareFailed", "False/TopologyNotReady",
       [](StatusFacts& s) {
         s.topology.has_lost = true;
         s.topology.reason = "PrepareFailed";
         s.topology.message = "experts-1: no model";
       }},
      {"TopologyReady", "True/Committed", "True/AsWanted",
       [](StatusFacts& s) {  // the old epoch serves while the next one is made
         s.topology.reason = "PrepareFailed";
         s.topology.message = "experts-1: no model";
       }},
      {"TopologyReady", "False/MemberLost", "False/TopologyNotReady",
       [](StatusFacts& s) { s.topology.has_lost = true; }},
      {"TopologyReady", "False/EpochLost", "False/TopologyNotReady",
       [](StatusFacts& s) {  // whatever the next epoch waits for
         s.topology.lost = "epoch 3 is lost: experts-1 holds its requests: a peer has gone";
         s.awaited = {"WaitingForPods", "pod x is being started again"};
       }},
      {"Available", "False/TopologyNotReady", "False/TopologyNotReady",
       [](StatusFacts& s) { s.topology.lost = "epoch 3 is lost: experts-1 holds its requests"; }},
      {"TopologyReady", "False/WaitingForPods", "False/TopologyNotReady",
       [](StatusFacts& s) {
         s.topology.has_lost = true;
         s.awaited = {"WaitingForPods", "pod x is not ready yet"};
       }},
      {"Available", "False/GatewayNotReady", "False/GatewayNotReady",
       [](StatusFacts& s) { s.gateways_available = 0; }},
      {"Available", "False/Suspended", "False/Suspended",
       [](StatusFacts& s) { s.asleep = "the service is suspended"; }},
      {"Progressing", "True/Working", "False/GatewayNotReady",
       [](StatusFacts& s) { s.gateways_available = 0; }},
      {"Progressing", "False/ProgressDeadlineExceeded", "False/GatewayNotReady",
       [](StatusFacts& s) {
         s.gateways_available = 0;
         s.now = s.progressed + kProgressDeadline;
       }},
      {"Available", "False/AdoptRefused", "False/AdoptRefused",
       [](StatusFacts& s) {  // another program answers at the service's name
         s.no_endpoint = s.refused = {"AdoptRefused", "Service chat is somebody else's"};
       }},
      {"Progressing", "False/AdoptRefused", "True/AsWanted",
       [](StatusFacts& s) {
         s.refused = {"AdoptRefused", "NetworkPolicy chat-workers is somebody else's"};
       }},
      {"Progressing", "False/InvalidSpec", "False/InvalidSpec",
       [](StatusFacts& s) {
         s.invalid = {"InvalidSpec", "spec.image: no"};
       }},
      {"Stalled", "True/InvalidSpec", "False/InvalidSpec",
       [](StatusFacts& s) {
         s.invalid = {"InvalidSpec", "spec.image: no"};
       }},
      {"Stalled", "True/NotSupported", "False/NotSupported",
       [](StatusFacts& s) {
         s.invalid = {"NotSupported", "spec.ratio: no"};
       }},
      {"ScalingReady", "Unknown/NotDecided", "True/AsWanted",
       [](StatusFacts& s) { s.scaling.is_scaled = true; }},
      {"ScalingReady", "True/Stabilizing", "True/AsWanted",
       [](StatusFacts& s) { Decide("Stabilizing", s); }},
      {"ScalingReady", "False/NoMetrics", "True/AsWanted",
       [](StatusFacts& s) { Decide("NoMetrics", s); }},
      {"ScalingReady", "False/ModelError", "True/AsWanted",
       [](StatusFacts& s) { Decide("ModelError", s); }},
      {"SLOMet", "Unknown/NoMetrics", "True/AsWanted",
       [](StatusFacts& s) { s.scaling.has_target = true; }},
      {"SLOMet", "Unknown/NoTraffic", "True/AsWanted", [](StatusFacts& s) { Judge(9, 9, s); }},
      {"SLOMet", "True/Met", "True/AsWanted", [](StatusFacts& s) { Judge(100, 95, s); }},
      {"SLOMet", "False/SLOViolated", "True/AsWanted", [](StatusFacts& s) { Judge(100, 94, s); }},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(std::string(one.type) + " " + one.said);
    StatusFacts seen = Whole();
    one.change(seen);
    const auto said = Said(seen);
    EXPECT_EQ(said.at(one.type), one.said);
    EXPECT_EQ(said.at("Ready"), one.ready);
  }
}

TEST(ConditionsOf, OfTimedDevicesSayThatTheyAreEmulatedAndWhetherTheRunIsVoid) {
  StatusFacts seen = Whole();
  const auto topology = [&] {
    for (const Condition& one : ConditionsOf(seen)) {
      if (one.type == "TopologyReady") return one.message;
    }
    return std::string();
  };
  seen.plan.emplace();
  EXPECT_EQ(topology(), "epoch 5 serves: 2 attention and 3 expert instances");
  seen.plan->timed = TimedDevice{"H200", "deepseek-v3", 64, 8};
  EXPECT_EQ(topology(),
            "epoch 5 serves: 2 attention and 3 expert instances; emulated: H200 as deepseek-v3, "
            "scale 64, time scale 8");
  seen.is_void = true;
  EXPECT_NE(topology().find("; void: more than 1 % of the results"), std::string::npos);
  EXPECT_NE(topology().find("so lower spec.timed.timeScale (now 8), "), std::string::npos);
  seen.plan->timed->time_scale = 1;
  EXPECT_EQ(topology().find("timeScale"), std::string::npos) << "nothing is lower than 1";
}

TEST(ConditionsOf, WhatSleepsAsWantedIsComplete) {
  StatusFacts seen = Whole();
  seen.asleep = "the service is suspended";
  EXPECT_EQ(Said(seen).at("Progressing"), "True/Working") << "its pods have still to go";
  seen.attention.pods = seen.experts.pods = 0;
  EXPECT_EQ(Said(seen).at("Progressing"), "True/Complete");
}

Node Service() {
  return Object({{"metadata", Object({{"name", Text("chat")}})}});
}

TEST(Compare, TellsWhatMustBeWrittenFromWhatCanWait) {
  const StatusFacts seen = Whole();
  const Node before = WithStatus(Service(), seen);
  EXPECT_EQ(Compare(Service(), before), StatusChange::kNow) << "there was none";
  const auto changed = [&](const std::function<void(StatusFacts&)>& change) {
    StatusFacts other = seen;
    other.now += seconds(5);
    change(other);
    return Compare(before, WithStatus(before, other));
  };
  EXPECT_EQ(changed([](StatusFacts&) {}), StatusChange::kNone) << "time alone";
  EXPECT_EQ(changed([](StatusFacts& s) { s.attention.draining = 1; }), StatusChange::kNumbers);
  EXPECT_EQ(changed([](StatusFacts& s) { s.gateways_available = 1; }), StatusChange::kNumbers)
      << "a message alone";
  EXPECT_EQ(changed([](StatusFacts& s) { s.fails = "create pod a: no right"; }),
            StatusChange::kWords);
  EXPECT_EQ(changed([](StatusFacts& s) { s.gateways_available = 0; }), StatusChange::kNow);
  EXPECT_EQ(changed([](StatusFacts& s) { s.generation = 4; }), StatusChange::kNow);
  EXPECT_EQ(changed([](StatusFacts& s) { s.pinned.image = "b"; }), StatusChange::kNow);
  EXPECT_EQ(changed([](StatusFacts& s) { s.pinned.restarted_at = "b"; }), StatusChange::kNow);
  EXPECT_EQ(changed([](StatusFacts& s) { s.experts.last_pod_id = 9; }), StatusChange::kNow);
  EXPECT_EQ(changed([](StatusFacts& s) { s.experts.desired = 9; }), StatusChange::kNow);
}

TEST(Compare, WordsOfAConditionThatAsksForHelpDoNotWaitLong) {
  StatusFacts seen = Whole();
  seen.topology = {};
  seen.awaited = {"ModelUnknown", "waiting for pod a"};
  seen.scaling.has_target = seen.scaling.is_judged = true;
  seen.scaling.ended = 20;
  const Node before = WithStatus(Service(), seen);
  seen.awaited.message = "pod a: cannot connect";
  EXPECT_EQ(Compare(before, WithStatus(before, seen)), StatusChange::kWords);
  seen.awaited.message = "waiting for pod a";
  seen.scaling.ended = 21;
  EXPECT_EQ(Compare(before, WithStatus(before, seen)), StatusChange::kNumbers)
      << "SLOMet is False too, but its numbers always change";
}

TEST(LastPodId, IsKeptPerRole) {
  Node service = Service();
  EXPECT_EQ(LastPodId(service, Role::kExperts), 0);
  SetLastPodId(service, Role::kExperts, 4);
  SetLastPodId(service, Role::kAttention, 2);
  SetLastPodId(service, Role::kExperts, 7);
  EXPECT_EQ(LastPodId(service, Role::kExperts), 7);
  EXPECT_EQ(LastPodId(service, Role::kAttention), 2);
  const Node next = WithStatus(service, Whole());
  EXPECT_EQ(LastPodId(next, Role::kExperts), 0) << "as the pass has seen it";
}

}  // namespace
}  // namespace janus::control
