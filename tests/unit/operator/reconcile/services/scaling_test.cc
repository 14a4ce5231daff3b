// A service in mode SLO in simulated time: its counts follow the load that gateways and workers
// count, and its status says why.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>

#include "operator/api/json.h"
#include "operator/api/parse.h"
#include "operator/api/yaml.h"
#include "operator/kube/object.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/scaling/decision_tree.h"
#include "operator/reconcile/status/status.h"
#include "operator/records/record_lines.h"
#include "operator/records/replay.h"
#include "operator/records/service_page.h"
#include "tests/support/contains.h"
#include "tests/support/reconcile/simulated_service.h"

namespace janus::control {
namespace {

// A device on which the small model's step takes milliseconds, so that a few hundred requests a
// second need several instances.
RoleDevices SlowCpus() {
  const ComputeRate rate{1e8, 2e8};
  const DeviceReport report{"", CpuSpeed{1, rate, rate}};
  return {report, report};
}

class ScalingTest : public testing::Test {
 protected:
  void Begin(const std::string& more = "", const std::string& dtype = "Auto") {
    Begin(sim_, more, dtype);
  }
  static void Begin(SimulatedService& sim, const std::string& more = "",
                    const std::string& dtype = "Auto") {
    sim.planner.devices = SlowCpus();
    const Result<Node> object = ParseYaml(
        "apiVersion: serving.janus.dev/v1alpha1\nkind: MoEService\n"
        "metadata: {name: demo, namespace: default}\nspec:\n"
        "  model: {dtype: " +
            dtype +
            ", source: {type: HostPath, hostPath: {path: /models/demo}}}\n"
            "  slo: {tpot: {targetMilliseconds: 100}}\n" +
            more,
        "demo.yaml");
    ASSERT_TRUE(object.ok()) << object.status().ToString();
    const auto applied = sim.user.Apply(kMoEServices, *object, Subresource::kNone, {}, {});
    ASSERT_TRUE(applied.ok()) << applied.status().ToString();
    sim.RunUntil("Ready");
  }
  // And no other counts are allowed.
  void BeginWithALoadForTwoMicroBatches(const std::string& hardware = "A100",
                                        const std::string& dtype = "Auto",
                                        const std::string& more = "") {
    sim_.options.timed_devices = true;
    sim_.RestartOperator();
    sim_.workers.SetTraffic(
        {.requests_per_second = 1, .prompt_tokens = 73, .output_tokens = 130, .tpot_seconds = 0.1});
    Begin("  device: Timed\n  timed: {hardware: " + hardware +
              ", model: mixtral-8x22b, scale: 16}\n"
              "  roles:\n    attention: {scaling: {minReplicas: 3, maxReplicas: 3}}\n"
              "    experts: {scaling: {minReplicas: 5, maxReplicas: 5}}\n" +
              more,
          dtype);
  }
  // The weights of type Float16 are copied into each instance, so slots take memory. From now on it
  // is as little as has all slots with one micro-batch. Returns the slots with one and with two.
  std::array<int, 2> LeaveSlotsForOneMicroBatch() {
    MoEService service = ParseMoEService(sim_.Service()).object;
    const auto slots_with = [&](int micro_batches) {
      service.spec.pipeline.micro_batches = micro_batches;
      const Result<PlannedService> planned = sim_.planner.Plan(service);
      return planned.ok() ? planned->plan.slots_per_instance + planned->plan.spare_slots : 0;
    };
    const int most = slots_with(1);
    int64_t too_little = 0, enough = sim_.planner.room.memory_bytes;
    while (enough - too_little > 1) {
      sim_.planner.room.memory_bytes = too_little + (enough - too_little) / 2;
      const bool is_enough = slots_with(1) == most && slots_with(2) > 0;
      (is_enough ? enough : too_little) = sim_.planner.room.memory_bytes;
    }
    sim_.planner.room.memory_bytes = enough;
    return {slots_with(1), slots_with(2)};
  }
  // Replaces the model by another one beside it. Expects that the old one's epoch stays until then.
  void ExpectNoOtherEpochWhileTheModelIsReplaced() {
    const std::string old = sim_.Topology()->metadata.name;
    const int64_t epoch = sim_.Topology()->spec.committed->epoch;
    int looks = 0;
    sim_.on_step = [&] {
      for (const Node& node : sim_.List(kTopologies)) {
        const MoETopology topology = ParseMoETopology(node).object;
        if (topology.metadata.name != old || !topology.spec.committed) continue;
        ++looks;
        EXPECT_EQ(topology.spec.committed->epoch, epoch);
      }
    };
    sim_.Patch(
        R"({"spec":{"model":{"source":{"hostPath":{"path":"/models/other"}}},"rollout":{"type":"SideBySide"}}})");
    sim_.Run(Seconds(120));
    sim_.on_step = [] {};
    EXPECT_GT(looks, 10);
    EXPECT_NE(sim_.Topology()->metadata.name, old);
  }
  int Desired(Role role) { return DesiredInstances(sim_.Service(), role).value_or(0); }
  int Instances() { return Desired(Role::kAttention) + Desired(Role::kExperts); }
  std::string Scaling() {
    return sim_.Condition("ScalingReady") + ": " + sim_.MessageOf("ScalingReady");
  }

  SimulatedService sim_;
};

TEST_F(ScalingTest, CountsFollowTheLoadUpAndDown) {
  sim_.workers.SetTraffic({.requests_per_second = 1});
  Begin();
  sim_.Run(Seconds(120));
  const int few = Instances();
  EXPECT_EQ(sim_.Condition("ScalingReady").substr(0, 4), "True") << Scaling();
  EXPECT_EQ(sim_.Condition("SLOMet"), "True/Met") << sim_.MessageOf("SLOMet");

  sim_.workers.SetTraffic({.requests_per_second = 100, .tpot_seconds = 0.2});
  sim_.Run(Seconds(300));
  const int many = Instances();
  EXPECT_GT(many, few) << Scaling();
  EXPECT_EQ(sim_.Condition("SLOMet"), "False/SLOViolated") << sim_.MessageOf("SLOMet");
  const std::optional<DecisionRecord> decision = LastDecisionOf(sim_.Service());
  ASSERT_TRUE(decision);
  EXPECT_EQ(ToString(decision->to), std::to_string(Desired(Role::kAttention)) + "A" +
                                        std::to_string(Desired(Role::kExperts)) + "E");
  sim_.ExpectMembers(Desired(Role::kAttention), Desired(Role::kExperts));

  sim_.workers.SetTraffic({.requests_per_second = 1});
  sim_.Run(Seconds(1800));
  EXPECT_LT(Instances(), many) << Scaling();
  EXPECT_EQ(sim_.Condition("SLOMet"), "True/Met") << sim_.MessageOf("SLOMet");
  const std::vector<DecisionRecord> history = HistoryOf(sim_.Service());
  ASSERT_FALSE(history.empty());
  bool went_up = false, went_down = false;
  for (const DecisionRecord& one : history) {
    went_up |= one.action == DecisionRecord::Action::kScaleUp;
    went_down |= one.action == DecisionRecord::Action::kScaleDown;
    EXPECT_FALSE(one.message.empty());
  }
  EXPECT_TRUE(went_up || went_down);
}

TEST_F(ScalingTest, RecordedDecisionsAreTheSameAgain) {
  RecordBook book;
  sim_.options.records = &book;
  sim_.RestartOperator();
  sim_.workers.SetTraffic({.requests_per_second = 1});
  Begin();
  sim_.workers.SetTraffic({.requests_per_second = 100, .tpot_seconds = 0.2});
  sim_.Run(Seconds(300));
  sim_.workers.SetTraffic({.requests_per_second = 1});
  sim_.Run(Seconds(900));

  const std::string page =
      AnswerRecords(book, "/v1/services/default/demo/worlds", sim_.timeline.WallNow()).body;
  const auto ticks = ParseLines(page);
  ASSERT_TRUE(ticks.ok()) << ticks.status().ToString();
  ASSERT_GT(ticks->size(), 60u);
  EXPECT_TRUE(ticks->front().begins);
  const auto same = Replay(*ticks, {});
  ASSERT_TRUE(same.ok()) << same.status().ToString();
  EXPECT_EQ(same->settling, 0);
  int changes = 0;
  for (const ReplayedTick& tick : same->ticks) {
    EXPECT_FALSE(tick.differs()) << tick.recorded.text << " / " << tick.replayed.text;
    changes += tick.recorded.verb == "Scale";
  }
  EXPECT_GT(changes, 0);
  // Another target decides otherwise.
  const auto other = Replay(*ticks, {.tpot_seconds = 1});
  ASSERT_TRUE(other.ok()) << other.status().ToString();
  EXPECT_TRUE(std::ranges::any_of(other->ticks, &ReplayedTick::differs));

  // What people see.
  const auto records = AnswerRecords(book, "/v1/services/default/demo", sim_.timeline.WallNow());
  EXPECT_EQ(records.status, 200);
  const auto tree = ParseJson(records.body, "records");
  ASSERT_TRUE(tree.ok()) << tree.status().ToString();
  EXPECT_EQ(FindAt(*tree, {"series"})->items.size(), ticks->size());
  const Node* const decisions = FindAt(*tree, {"decisions"});
  ASSERT_GE(decisions->items.size(), 2u);
  const Node& first = decisions->items.front();
  EXPECT_EQ(TextAt(first, {"action"}), "ScaleUp");
  EXPECT_FALSE(FindAt(first, {"candidates"})->items.empty());
  EXPECT_EQ(AnswerRecords(book, "/v1/services/default/other", {}).status, 404);

  // A page that polls reads what came after the last point it has.
  const std::string own = "/v1/services/default/demo/since/";
  const auto after = [&](const std::string& time) {
    return *ParseJson(AnswerRecords(book, own + time, sim_.timeline.WallNow()).body, "records");
  };
  const std::vector<Node>& points = FindAt(*tree, {"series"})->items;
  const Node rest = after(FindAt(points[points.size() - 4], {"t"})->text);
  EXPECT_EQ(FindAt(rest, {"series"})->items.size(), 3u);
  const Node none = after(FindAt(points.back(), {"t"})->text);
  EXPECT_TRUE(FindAt(none, {"series"})->items.empty());
  ASSERT_EQ(FindAt(none, {"decisions"})->items.size(), 1u) << "the last one";
  EXPECT_EQ(FindAt(after("0"), {"series"})->items.size(), points.size());
  for (const char* time : {"", "yesterday", "-1", "1e300", "nan"}) {
    EXPECT_EQ(AnswerRecords(book, own + time, {}).status, 404) << time;
  }
  EXPECT_EQ(AnswerRecords(book, "/", {}).status, 404);
  EXPECT_TRUE(Contains(AnswerRecords(book, "/v1/services", {}).body, "\"demo\""));
}

Node RecordsOfDemo(const RecordBook& book, WallTime now) {
  const auto records = AnswerRecords(book, "/v1/services/default/demo", now);
  EXPECT_EQ(records.status, 200) << records.body;
  auto tree = ParseJson(records.body, "records");
  EXPECT_TRUE(tree.ok()) << tree.status().ToString();
  return tree.ok() ? *std::move(tree) : Node::Map();
}

// Also before the first decision, which has no world to show.
// Each decision needs new counters, so members are asked for them more often than that.
TEST_F(ScalingTest, DecidesAsOftenAsTheSpecSays) {
  RecordBook book;
  sim_.options.records = &book;
  sim_.RestartOperator();
  sim_.workers.SetTraffic({.requests_per_second = 1});
  Begin("  scaling: {intervalSeconds: 2}\n");
  sim_.Run(Seconds(60));
  const auto ticks = ParseLines(
      AnswerRecords(book, "/v1/services/default/demo/worlds", sim_.timeline.WallNow()).body);
  ASSERT_TRUE(ticks.ok()) << ticks.status().ToString();
  EXPECT_GE(ticks->size(), 25u) << Scaling();
}

TEST_F(ScalingTest, RecordsSayWhatHoldsNow) {
  RecordBook book;
  sim_.options.records = &book;
  sim_.RestartOperator();
  ScriptedWorkers::Traffic load = {.requests_per_second = 1, .late_share = 0.2};
  sim_.workers.SetTraffic(load);
  Begin();
  sim_.Run(Seconds(60));
  EXPECT_EQ(sim_.Condition("ScalingReady"), "False/EmulationLate") << Scaling();
  const Node before = RecordsOfDemo(book, sim_.timeline.WallNow());
  EXPECT_TRUE(FindAt(before, {"series"})->items.empty());
  EXPECT_EQ(TextAt(before, {"hold", "reason"}), "EmulationLate");
  EXPECT_EQ(std::string(TextAt(before, {"hold", "at"})) + ": " +
                std::string(TextAt(before, {"hold", "message"})),
            sim_.MessageOf("ScalingReady"));

  load.late_share = 0;
  sim_.workers.SetTraffic(load);
  sim_.Run(Seconds(60));
  const Node decided = RecordsOfDemo(book, sim_.timeline.WallNow());
  EXPECT_FALSE(FindAt(decided, {"series"})->items.empty());
  EXPECT_EQ(FindAt(decided, {"hold"})->kind, Node::Kind::kNull);

  load.late_share = 0.2;
  sim_.workers.SetTraffic(load);
  sim_.Run(Seconds(60));
  const Node after = RecordsOfDemo(book, sim_.timeline.WallNow());
  EXPECT_EQ(TextAt(after, {"hold", "reason"}), "EmulationLate");
}

// A hold ends with the decisions, and is not counted again.
TEST_F(ScalingTest, RecordsHoldNothingWhereNothingIsToBeDecided) {
  constexpr std::string_view kFixed =
      R"("roles":{"attention":{"replicas":1},"experts":{"replicas":2}})";
  for (const std::string without : {R"("slo":{"tpot":{"targetMilliseconds":100}})", R"("slo":null)",
                                    R"("slo":null,"suspend":true)"}) {
    SCOPED_TRACE(without);
    RecordBook book;
    SimulatedService sim;
    sim.options.records = &book;
    sim.RestartOperator();
    sim.workers.SetTraffic({.requests_per_second = 1, .late_share = 0.2});
    Begin(sim);
    sim.Run(Seconds(60));
    const Node held = RecordsOfDemo(book, sim.timeline.WallNow());
    EXPECT_EQ(TextAt(held, {"hold", "reason"}), "EmulationLate");
    sim.Patch(R"({"spec":{)" + without + "," + std::string(kFixed) + "}}");
    sim.Run(Seconds(30));
    const Node fixed = RecordsOfDemo(book, sim.timeline.WallNow());
    EXPECT_EQ(FindAt(fixed, {"hold"})->kind, Node::Kind::kNull) << WriteJson(fixed);
    const auto decided = book.Figures().front().decided;
    sim.Run(Seconds(120));
    EXPECT_EQ(book.Figures().front().decided, decided);
  }
}

void ExpectTheSameAgain(const RecordBook& book, WallTime now) {
  const std::string page = AnswerRecords(book, "/v1/services/default/demo/worlds", now).body;
  const auto recorded = ParseLines(page);
  ASSERT_TRUE(recorded.ok()) << recorded.status().ToString();
  const auto same = Replay(*recorded, {});
  ASSERT_TRUE(same.ok()) << same.status().ToString();
  for (const ReplayedTick& tick : same->ticks) {
    EXPECT_FALSE(tick.differs()) << tick.recorded.text << " / " << tick.replayed.text;
  }
}

// What was learned of one profile would correct figures of another that are right.
TEST_F(ScalingTest, ACorrectedProfileBeginsWithoutCorrections) {
  RecordBook book;
  sim_.options.records = &book;
  sim_.RestartOperator();
  sim_.workers.SetTraffic({.requests_per_second = 1, .tpot_seconds = 0.08});
  Begin();
  sim_.Run(Seconds(300));
  CpuSpeed& cpu = *sim_.planner.devices.experts->cpu;
  cpu.one = cpu.all = {1e9, 2e9};
  sim_.Run(Seconds(120));
  const auto records = book.Of({"default", "demo"});
  ASSERT_TRUE(records);
  const auto& ticks = records->ticks;
  int changes = 0;
  for (size_t i = 1; i < ticks.size(); ++i) {
    if (ticks[i]->setting->basis == ticks[i - 1]->setting->basis) continue;
    ++changes;
    EXPECT_GT(ticks[i - 1]->decision.error.count, 5);
    EXPECT_LE(ticks[i]->decision.error.count, 1);
  }
  EXPECT_EQ(changes, 1);
  ExpectTheSameAgain(book, sim_.timeline.WallNow());
}

// Instances divide the cores, and no two workers measure the same speed.
TEST_F(ScalingTest, NoOtherCountAndNoJitterUndoesWhatWasLearned) {
  RecordBook book;
  sim_.options.records = &book;
  sim_.RestartOperator();
  sim_.workers.SetTraffic({.requests_per_second = 1});
  Begin();
  sim_.Run(Seconds(120));
  sim_.workers.SetTraffic({.requests_per_second = 100, .tpot_seconds = 0.2});
  sim_.Run(Seconds(200));
  for (const double faster : {1.3, 0.8, 1.2}) {
    for (auto* report : {&sim_.planner.devices.attention, &sim_.planner.devices.experts}) {
      (*report)->cpu->one = (*report)->cpu->all = {faster * 1e8, faster * 2e8};
    }
    sim_.Run(Seconds(60));
  }
  sim_.Patch(R"({"spec":{"pools":2}})");
  sim_.Run(Seconds(120));
  sim_.workers.SetTraffic({.requests_per_second = 1});
  sim_.Run(Seconds(600));
  const auto records = book.Of({"default", "demo"});
  ASSERT_TRUE(records);
  const auto& ticks = records->ticks;
  std::set<std::string> counts;
  int other_profiles = 0;
  for (size_t i = 1; i < ticks.size(); ++i) {
    counts.insert(ToString(ticks[i]->summary.to));
    other_profiles += ticks[i]->setting->inputs.experts != ticks[i - 1]->setting->inputs.experts;
    EXPECT_GE(ticks[i]->decision.error.count, ticks[i - 1]->decision.error.count);
  }
  EXPECT_GE(counts.size(), 3u);
  EXPECT_GE(other_profiles, 4);
  EXPECT_GT(ticks.back()->decision.error.count, 20);
  ExpectTheSameAgain(book, sim_.timeline.WallNow());
}

TEST_F(ScalingTest, MicroBatchesFollowTheLoadWhileTheCountsStay) {
  RecordBook book;
  sim_.options.records = &book;
  BeginWithALoadForTwoMicroBatches();
  EXPECT_EQ(sim_.workers.last().micro_batches, 1);
  sim_.Run(Seconds(60));
  EXPECT_EQ(sim_.workers.last().micro_batches, 2) << Scaling();
  sim_.ExpectMembers(3, 5);
  // It is a change that people see, once.
  EXPECT_EQ(sim_.op().CountEvents("MicroBatchesChanged"), 1);
  const std::string event = sim_.op().LastText("MicroBatchesChanged");
  EXPECT_TRUE(Contains(event, "micro-batches: 2 (TPOT ")) << event;
  EXPECT_TRUE(Contains(event, " instead of 1 (")) << event;
  sim_.Run(Seconds(75));  // numbers of the status are a minute old at the most
  const std::vector<DecisionRecord> history = HistoryOf(sim_.Service());
  ASSERT_EQ(history.size(), 1u);
  EXPECT_EQ(history[0].action, DecisionRecord::Action::kSplit);
  EXPECT_EQ(history[0].from, history[0].to);
  // What is expected is that of the new number.
  const std::string& said = history[0].message;
  EXPECT_NEAR(std::stod(said.substr(said.find("(TPOT ") + 6)),
              static_cast<double>(history[0].predicted_tpot_microseconds.value_or(0)) / 1e3, 0.1)
      << said;
  const Result<Node> page = ParseJson(
      AnswerRecords(book, "/v1/services/default/demo", sim_.timeline.WallNow()).body, "records");
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(TextAt(FindAt(*page, {"decisions"})->items.front(), {"action"}), "Split");
  // Another leader keeps them before it has decided.
  const int prepares = sim_.workers.prepares();
  sim_.RestartOperator();
  sim_.Run(Seconds(60));
  EXPECT_EQ(sim_.workers.last().micro_batches, 2) << Scaling();
  EXPECT_EQ(sim_.workers.prepares(), prepares);
  EXPECT_EQ(sim_.op().CountEvents("MicroBatchesChanged"), 0) << "the leader before told it";
  ExpectTheSameAgain(book, sim_.timeline.WallNow());
}

TEST_F(ScalingTest, FixedCountsRunTheMicroBatchesOfTheSpec) {
  BeginWithALoadForTwoMicroBatches();
  sim_.Run(Seconds(60));
  ASSERT_EQ(sim_.workers.last().micro_batches, 2) << Scaling();
  sim_.Patch(R"({"spec":{"roles":{"attention":{"replicas":3,"scaling":null},
                                  "experts":{"replicas":5,"scaling":null}}}})");
  sim_.Run(Seconds(60));
  EXPECT_EQ(sim_.workers.last().micro_batches, 1);
  sim_.ExpectMembers(3, 5);
}

TEST_F(ScalingTest, MicroBatchesOfTheUserAreNoDecision) {
  BeginWithALoadForTwoMicroBatches("A100", "Auto", "  pipeline: {microBatches: 1}\n");
  sim_.Run(Seconds(60));
  ASSERT_EQ(sim_.workers.last().micro_batches, 1);
  const auto set = [&](const std::string& number) {
    // The status has every message for a minute at the least.
    std::set<std::string> said;
    sim_.on_step = [&] {
      if (const auto last = LastDecisionOf(sim_.Service())) said.insert(last->message);
    };
    sim_.Patch(R"({"spec":{"pipeline":{"microBatches":)" + number + "}}}");
    sim_.Run(Seconds(150));
    sim_.on_step = [] {};
    EXPECT_FALSE(said.empty());
    return said;
  };
  for (const std::string& message : set("2")) {
    EXPECT_FALSE(Contains(message, "micro-batches")) << message;
  }
  EXPECT_EQ(sim_.workers.last().micro_batches, 2);
  EXPECT_EQ(sim_.op().CountEvents("MicroBatchesChanged"), 0);
  set("1");
  EXPECT_EQ(sim_.workers.last().micro_batches, 1);
  EXPECT_EQ(sim_.op().CountEvents("MicroBatchesChanged"), 0)
      << sim_.op().LastText("MicroBatchesChanged");
  EXPECT_TRUE(HistoryOf(sim_.Service()).empty());
  // The number is left open again: more are a decision.
  set("null");
  EXPECT_GT(sim_.workers.last().micro_batches, 1) << Scaling();
  EXPECT_EQ(sim_.op().CountEvents("MicroBatchesChanged"), 1);
}

// The memory bounds the slots: they leave room for two from the start.
TEST_F(ScalingTest, AnotherNumberOfMicroBatchesChangesNoSlots) {
  BeginWithALoadForTwoMicroBatches("H200", "Float16");
  const auto [slots_with_one, slots_with_two] = LeaveSlotsForOneMicroBatch();
  ASSERT_LT(slots_with_two, slots_with_one);
  sim_.Run(Seconds(5));
  ASSERT_EQ(sim_.workers.last().micro_batches, 1);
  const Placement before = sim_.workers.last().placement;
  sim_.workers.SetTraffic(
      {.requests_per_second = 3, .prompt_tokens = 73, .output_tokens = 130, .tpot_seconds = 0.1});
  EXPECT_EQ(before.slots_of_instance, std::vector<int>(5, slots_with_two));
  sim_.Run(Seconds(60));
  EXPECT_EQ(sim_.workers.last().micro_batches, 2) << Scaling();
  EXPECT_EQ(sim_.workers.last().placement, before);
  EXPECT_EQ(sim_.op().CountEvents("PlacementChanged"), 1) << "when the memory shrank";
}

TEST_F(ScalingTest, AModelThatIsReplacedKeepsItsMicroBatches) {
  sim_.planner.digest_of = {{"/models/other", "digest-2"}};
  BeginWithALoadForTwoMicroBatches();
  sim_.Run(Seconds(60));
  ASSERT_EQ(sim_.workers.last().micro_batches, 2) << Scaling();
  ExpectNoOtherEpochWhileTheModelIsReplaced();
}

// The spec says one, so slots leave no room for two.
TEST_F(ScalingTest, AModelThatIsReplacedKeepsTheSlotsOfItsMicroBatches) {
  sim_.planner.digest_of = {{"/models/other", "digest-2"}};
  BeginWithALoadForTwoMicroBatches("H200", "Float16", "  pipeline: {microBatches: 1}\n");
  const auto [slots_with_one, slots_with_two] = LeaveSlotsForOneMicroBatch();
  ASSERT_LT(slots_with_two, slots_with_one);
  sim_.Run(Seconds(5));
  ASSERT_EQ(sim_.workers.last().placement.slots_of_instance, std::vector<int>(5, slots_with_one));
  ExpectNoOtherEpochWhileTheModelIsReplaced();
}

// The same load, on a machine whose memory holds only one.
TEST_F(ScalingTest, MicroBatchesThatDoNotFitDoNotStopDecisions) {
  BeginWithALoadForTwoMicroBatches();
  MoEService service = ParseMoEService(sim_.Service()).object;
  service.spec.pipeline.micro_batches = 2;
  int64_t too_little = 0, enough = sim_.planner.room.memory_bytes;
  while (enough - too_little > 1) {
    sim_.planner.room.memory_bytes = too_little + (enough - too_little) / 2;
    (sim_.planner.Plan(service).ok() ? enough : too_little) = sim_.planner.room.memory_bytes;
  }
  sim_.planner.room.memory_bytes = too_little;
  service.spec.pipeline.micro_batches = 1;
  ASSERT_TRUE(sim_.planner.Plan(service).ok());
  sim_.Run(Seconds(60));
  EXPECT_EQ(sim_.workers.last().micro_batches, 1);
  EXPECT_EQ(sim_.Condition("CapacityAvailable"), "True/Sufficient")
      << sim_.MessageOf("CapacityAvailable");
  EXPECT_EQ(sim_.Condition("ScalingReady").substr(0, 4), "True") << Scaling();
  const int prepares = sim_.workers.prepares();
  sim_.Run(Seconds(60));
  EXPECT_EQ(sim_.workers.prepares(), prepares);
  // With room they follow.
  sim_.planner.room.memory_bytes = enough;
  sim_.Run(Seconds(60));
  EXPECT_EQ(sim_.workers.last().micro_batches, 2) << Scaling();
  // A number of the user that does not fit changes nothing.
  sim_.Patch(R"({"spec":{"pipeline":{"microBatches":4}}})");
  sim_.Run(Seconds(60));
  EXPECT_EQ(sim_.workers.last().micro_batches, 2);
  EXPECT_EQ(sim_.Condition("CapacityAvailable"), "False/InsufficientCapacity");
  EXPECT_NE(sim_.Condition("ScalingReady"), "False/NoMetrics") << Scaling();
}

TEST_F(ScalingTest, ArrivalsAreAveragedOnTheClockOfTimedDevices) {
  RecordBook book;
  sim_.options.records = &book;
  sim_.options.timed_devices = true;
  sim_.RestartOperator();
  sim_.workers.SetTraffic({.requests_per_second = 1});
  Begin("  device: Timed\n  timed: {hardware: A100, model: mixtral-8x22b, timeScale: 8}\n");
  sim_.Run(Seconds(120));
  const auto ticks = ParseLines(
      AnswerRecords(book, "/v1/services/default/demo/worlds", sim_.timeline.WallNow()).body);
  ASSERT_TRUE(ticks.ok()) << ticks.status().ToString();
  ASSERT_FALSE(ticks->empty());
  EXPECT_EQ(ticks->back().world.arrivals.back().window_seconds, 300.0 / 8);
  EXPECT_EQ(ticks->back().world.arrivals.front().window_seconds, 15) << "the interval";
}

TEST_F(ScalingTest, WithoutCountersTheCountsStay) {
  Begin();
  sim_.Run(Seconds(60));
  EXPECT_EQ(sim_.Condition("ScalingReady"), "False/NoMetrics") << Scaling();
  EXPECT_TRUE(Contains(sim_.MessageOf("ScalingReady"), "attention-0")) << Scaling();
}

TEST_F(ScalingTest, AnotherLeaderKeepsTheCountsUnderLoad) {
  sim_.workers.SetTraffic({.requests_per_second = 100});
  Begin();
  sim_.Run(Seconds(300));
  const int before = Instances();
  ASSERT_GT(before, 2) << Scaling();
  sim_.RestartOperator();
  for (int i = 0; i < 60; ++i) {
    sim_.Run(Seconds(5));
    EXPECT_GE(Instances(), before) << Scaling();
  }
}

TEST_F(ScalingTest, AFixedRoleStaysAsItIs) {
  sim_.workers.SetTraffic({.requests_per_second = 100});
  Begin("  roles: {attention: {replicas: 2}}\n");
  sim_.Run(Seconds(300));
  EXPECT_EQ(Desired(Role::kAttention), 2);
}

TEST_F(ScalingTest, AdvisorySaysWhatItWouldDo) {
  sim_.workers.SetTraffic({.requests_per_second = 100, .tpot_seconds = 0.2});
  Begin("  scaling: {advisory: true}\n");
  const int few = Instances();
  sim_.Run(Seconds(300));
  EXPECT_EQ(Instances(), few);
  EXPECT_EQ(sim_.Condition("ScalingReady"), "True/Advisory") << Scaling();
}

TEST_F(ScalingTest, NoFieldIsNamedForALimitThatNoneSets) {
  const auto limit = [&] {
    sim_.Run(Seconds(150));  // numbers of the status are a minute old at the most
    const std::optional<DecisionRecord> decision = LastDecisionOf(sim_.Service());
    return decision ? decision->limited_by : "no decision";
  };
  sim_.workers.SetTraffic({.requests_per_second = 0.01});
  Begin("  scaling: {advisory: true}\n");
  EXPECT_EQ(limit(), "the fewest instances that hold the model") << Scaling();
  sim_.workers.SetTraffic({.requests_per_second = 1e5});
  EXPECT_EQ(limit(), "the most instances that a service of this version may have") << Scaling();
  sim_.Patch(R"({"spec":{"roles":{"experts":{"scaling":{"maxReplicas":16}}}}})");
  EXPECT_EQ(limit(), "spec.roles.*.scaling.maxReplicas") << Scaling();
}

// Within one interval (15 s) of the first report.
TEST_F(ScalingTest, ImpossibleCountersHoldAndNameWhoReportedThem) {
  sim_.workers.SetTraffic({.requests_per_second = 100});
  Begin();
  sim_.Run(Seconds(300));
  const int before = Instances();
  sim_.workers.SetTraffic({.requests_per_second = 100, .tpot_seconds = -1e300});
  sim_.Run(Seconds(20));
  EXPECT_EQ(sim_.Condition("ScalingReady"), "False/BadStatistics") << Scaling();
  EXPECT_TRUE(Contains(sim_.MessageOf("ScalingReady"), "attention-0")) << Scaling();
  EXPECT_EQ(Instances(), before);
}

// No integer holds so many, and the test ends all the same.
TEST_F(ScalingTest, AbsurdlyManyRequestsEnd) {
  sim_.workers.SetTraffic({.requests_per_second = 1});
  Begin();
  sim_.Run(Seconds(30));
  const int before = Instances();
  sim_.workers.SetTraffic({.requests_per_second = 1e300});
  sim_.Run(Seconds(20));
  EXPECT_GE(Instances(), before) << Scaling();
}

TEST_F(ScalingTest, InstancesThatNoNodeTakesAreGivenUp) {
  sim_.workers.SetTraffic({.requests_per_second = 1});
  Begin("  scaling: {pendingTimeoutSeconds: 60}\n");
  sim_.Run(Seconds(60));
  const int before = Instances();
  for (const char* role : {"attention", "experts"}) {
    sim_.cluster.FillUp(role, "0/2 nodes are available: insufficient memory");
  }
  sim_.workers.SetTraffic({.requests_per_second = 100, .tpot_seconds = 0.2});
  sim_.Run(Seconds(45));
  EXPECT_GT(Instances(), before) << Scaling();
  sim_.Run(Seconds(90));
  EXPECT_EQ(Instances(), before) << Scaling();
  const std::vector<DecisionRecord> history = HistoryOf(sim_.Service());
  EXPECT_TRUE(std::ranges::any_of(
                  history, [](const DecisionRecord& one) { return one.reason == "Unplaceable"; }) ||
              LastDecisionOf(sim_.Service())->reason == "Unplaceable")
      << Scaling();
}

// On an overloaded machine more instances of an emulation would be later still.
TEST_F(ScalingTest, LateResultsOfTimedDevicesDecideNothing) {
  sim_.workers.SetTraffic({.requests_per_second = 1});
  Begin();
  sim_.Run(Seconds(60));
  const int before = Instances();
  ScriptedWorkers::Traffic load = {.requests_per_second = 1, .late_share = 0.2};
  sim_.workers.SetTraffic(load);
  sim_.Run(Seconds(30));
  load.requests_per_second = 30;
  load.tpot_seconds = 0.2;
  sim_.workers.SetTraffic(load);
  sim_.Run(Seconds(120));
  EXPECT_EQ(sim_.Condition("ScalingReady"), "False/EmulationLate") << Scaling();
  EXPECT_EQ(Instances(), before);
  load.late_share = 0.05;
  sim_.workers.SetTraffic(load);
  sim_.Run(Seconds(60));
  EXPECT_GT(Instances(), before) << Scaling();
}

int64_t Pools(SimulatedService& sim) {
  return IntegerAt(sim.Service(), {"status", "desiredPools"}).value_or(0);
}

// Of all pools: the instances in their committed epochs.
int Members(SimulatedService& sim) {
  size_t out = 0;
  for (const Node& one : sim.List(kTopologies)) {
    const MoETopologySpec spec = ParseMoETopology(one).object.spec;
    if (spec.committed && spec.committed->epoch > spec.ended_epoch) {
      out += spec.committed->instances.size();
    }
  }
  return static_cast<int>(out);
}

TEST_F(ScalingTest, PoolsHaveEqualSharesOfWhatIsDecided) {
  RecordBook book;
  sim_.options.records = &book;
  sim_.RestartOperator();
  sim_.workers.SetTraffic({.requests_per_second = 1});
  Begin("  pools: 2\n");
  sim_.Run(Seconds(120));
  const int few = Instances();
  EXPECT_EQ(sim_.Condition("ScalingReady").substr(0, 4), "True") << Scaling();
  sim_.workers.SetTraffic({.requests_per_second = 15});
  sim_.Run(Seconds(300));
  const int many = Instances();
  EXPECT_GT(many, 3 * few) << Scaling();
  const std::optional<DecisionRecord> decision = LastDecisionOf(sim_.Service());
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->to.pools, 2);
  const Node records = RecordsOfDemo(book, sim_.timeline.WallNow());
  std::string weighed;
  for (const Node& one : FindAt(records, {"decisions"})->items) {
    for (const Node& counts : FindAt(one, {"candidates"})->items) {
      weighed += std::string(TextAt(counts, {"counts"})) + "\n";
    }
  }
  EXPECT_TRUE(Contains(weighed, " in 2 pools\n")) << weighed;
  for (const Role role : {Role::kAttention, Role::kExperts}) EXPECT_EQ(Desired(role) % 2, 0);
  EXPECT_EQ(Pools(sim_), 2);
  EXPECT_EQ(Members(sim_), many) << sim_.MessageOf("Ready");
  sim_.workers.SetTraffic({.requests_per_second = 1});
  sim_.Run(Seconds(1800));
  // The scripted workers' steps do not follow their number, so what is learned of them may ask for
  // a few more than before.
  EXPECT_LT(Instances(), 2 * few) << Scaling();
  for (const Role role : {Role::kAttention, Role::kExperts}) EXPECT_EQ(Desired(role) % 2, 0);
}

TEST_F(ScalingTest, DecisionsDrainAPoolThatNoBoundAndNoLoadNeeds) {
  sim_.workers.SetTraffic({.requests_per_second = 1});
  Begin("  pools: 2\n  scaling: {maxPools: 3}\n  rollout: {drainSeconds: 10}\n");
  sim_.Run(Seconds(400));
  EXPECT_EQ(Pools(sim_), 2) << Scaling();
  sim_.Patch(R"({"spec":{"pools":1}})");
  sim_.Run(Seconds(1200));
  EXPECT_EQ(Pools(sim_), 1) << Scaling();
  EXPECT_EQ(Members(sim_), Instances());
  const std::vector<DecisionRecord> history = HistoryOf(sim_.Service());
  EXPECT_TRUE(std::ranges::any_of(history, [](const DecisionRecord& one) {
    return one.from.pools == 2 && one.to.pools == 1 && one.reason == "Cheaper";
  })) << Scaling();
  // Another leader keeps the number.
  sim_.RestartOperator();
  sim_.Run(Seconds(60));
  EXPECT_EQ(Pools(sim_), 1);
  // A higher bound adds one, under load too.
  sim_.workers.SetTraffic({.requests_per_second = 30, .tpot_seconds = 0.05});
  sim_.Patch(R"({"spec":{"pools":3}})");
  sim_.Run(Seconds(120));
  EXPECT_EQ(Pools(sim_), 3) << Scaling();
  EXPECT_EQ(Members(sim_), Instances()) << sim_.MessageOf("Ready");
}

// A count in the spec takes the role out of mode SLO, and its removal gives the role back.
TEST_F(ScalingTest, ACountThatAUserWritesStays) {
  sim_.workers.SetTraffic({.requests_per_second = 1});
  Begin();
  sim_.Run(Seconds(60));
  constexpr int kMany = 12;  // far more than the load needs
  sim_.Patch(R"({"spec":{"roles":{"experts":{"replicas":)" + std::to_string(kMany) + "}}}}");
  sim_.Run(Seconds(400));  // longer than the window of behavior.scaleDown
  EXPECT_EQ(Desired(Role::kExperts), kMany) << Scaling();
  EXPECT_EQ(sim_.Condition("ScalingReady").substr(0, 4), "True") << Scaling();
  sim_.Patch(R"({"spec":{"roles":{"experts":{"replicas":null}}}})");
  sim_.Run(Seconds(400));
  EXPECT_LT(Desired(Role::kExperts), kMany) << Scaling();
}

TEST_F(ScalingTest, AnAutoscalerOfARoleThatScalesItselfIsNamed) {
  sim_.workers.SetTraffic({.requests_per_second = 1});
  Begin();
  const auto autoscaler = [](const std::string& name, const std::string& target) {
    return *ParseYaml(
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\n"
        "metadata: {name: " +
            name +
            ", namespace: default}\n"
            "spec: {maxReplicas: 9, scaleTargetRef: {apiVersion: "
            "serving.janus.dev/v1alpha1, kind: MoERoleScaler, name: " +
            target + "}}\n",
        "autoscaler.yaml");
  };
  ASSERT_TRUE(sim_.user.Create(kAutoscalers, autoscaler("other", "another-experts"), {}, {}).ok());
  sim_.Run(Seconds(60));
  EXPECT_EQ(sim_.Condition("ScalingReady").substr(0, 4), "True") << Scaling();
  ASSERT_TRUE(sim_.user.Create(kAutoscalers, autoscaler("mine", "demo-experts"), {}, {}).ok());
  sim_.Run(Seconds(15));
  EXPECT_EQ(sim_.Condition("ScalingReady"), "False/AutoscalerIgnored") << Scaling();
  for (const char* part : {"mine", "role experts", "spec.roles.experts.scaling.mode: External"}) {
    EXPECT_TRUE(Contains(sim_.MessageOf("ScalingReady"), part)) << Scaling();
  }
  // Either remedy helps.
  sim_.Patch(R"({"spec":{"roles":{"experts":{"scaling":{"mode":"External"}}}}})");
  sim_.Run(Seconds(60));
  EXPECT_EQ(sim_.Condition("ScalingReady").substr(0, 4), "True") << Scaling();
  sim_.Patch(R"({"spec":{"roles":{"experts":{"scaling":null}}}})");
  sim_.Run(Seconds(60));
  EXPECT_EQ(sim_.Condition("ScalingReady"), "False/AutoscalerIgnored") << Scaling();
  ASSERT_TRUE(sim_.user.Delete(kAutoscalers, {"default", "mine"}, {}, {}).ok());
  sim_.Run(Seconds(15));
  EXPECT_EQ(sim_.Condition("ScalingReady").substr(0, 4), "True") << Scaling();
}

TEST_F(ScalingTest, ADeviceWithoutAProfileIsNamed) {
  sim_.workers.SetTraffic({.requests_per_second = 1});
  Begin();
  sim_.planner.devices.experts = DeviceReport{"Wonder GPU 9"};
  sim_.Run(Seconds(60));
  EXPECT_EQ(sim_.Condition("ScalingReady"), "False/NoProfile") << Scaling();
  EXPECT_TRUE(Contains(sim_.MessageOf("ScalingReady"), "Wonder GPU 9")) << Scaling();
}

}  // namespace
}  // namespace janus::control
