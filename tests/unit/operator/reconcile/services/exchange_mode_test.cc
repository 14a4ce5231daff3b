// Which exchange mode, and which side of the gate, a service gets from what its members have
// measured, on the store in this process, in simulated time.

#include <gtest/gtest.h>

#include "operator/kube/object.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "tests/support/contains.h"
#include "tests/support/reconcile/simulated_service.h"

namespace janus::control {
namespace {

using enum janus::ExchangeMode;

class ExchangeModeTest : public testing::Test {
 protected:
  ExchangeModeTest() {
    sim_.workers.measured = [this](Rank) { return link_; };
    sim_.Apply(4, 1);
    sim_.Patch(R"({"spec":{"roles":{"attention":{"instancesPerPod":4}}}})");
    sim_.RunUntil("Ready");
  }
  janus::ExchangeMode Mode() { return sim_.Topology()->spec.committed->mode; }
  int64_t Epoch() { return sim_.Topology()->spec.committed->epoch; }
  std::string Reason() {
    return std::string(TextAt(sim_.Service(), {"status", "topology", "exchangeReason"}));
  }

  SimulatedService sim_;
  // The latency decides, so every mode takes about as long.
  std::optional<MeasuredLink> link_ = MeasuredLink{5e-3, 1e10, 1e-7};
};

TEST_F(ExchangeModeTest, StaysWhereLittleIsGained) {
  EXPECT_EQ(Mode(), kTwoPhaseParallel);
  const int64_t epoch = Epoch();
  sim_.Run(Seconds(180));
  EXPECT_EQ(Epoch(), epoch);
  EXPECT_TRUE(Contains(Reason(), "TwoPhaseParallel: ")) << Reason();
  EXPECT_TRUE(Contains(Reason(), "measured 80 Gbit/s")) << Reason();
}

TEST_F(ExchangeModeTest, ChangesOnceWhereAnotherModeGainsMuch) {
  const int64_t epoch = Epoch();
  link_ = MeasuredLink{1e-4, 1e10, 5e-3};  // one message to the only expert instance, not four
  sim_.Run(Seconds(180));
  EXPECT_EQ(Mode(), kTwoPhaseSingle);
  EXPECT_EQ(Epoch(), epoch + 1);
  EXPECT_EQ(sim_.op().CountEvents("ExchangeModeChanged"), 1);
  EXPECT_TRUE(
      Contains(sim_.op().LastText("ExchangeModeChanged"), "exchanges in mode TwoPhaseSingle"))
      << sim_.op().LastText("ExchangeModeChanged");
  EXPECT_TRUE(Contains(Reason(), "TwoPhaseSingle: ")) << Reason();
  EXPECT_EQ(TextAt(sim_.Service(), {"status", "effective", "exchangeMode"}), "TwoPhaseSingle");
  // Another leader, which knows no figures yet, keeps it.
  sim_.RestartOperator();
  sim_.Run(Seconds(60));
  EXPECT_EQ(Mode(), kTwoPhaseSingle);
  EXPECT_EQ(Epoch(), epoch + 1);
}

TEST_F(ExchangeModeTest, OfTheSpecIsNotChanged) {
  sim_.Patch(R"({"spec":{"exchange":{"mode":"TwoPhaseParallel"}}})");
  link_ = MeasuredLink{1e-4, 1e10, 5e-3};
  const int64_t epoch = Epoch();
  sim_.Run(Seconds(180));
  EXPECT_EQ(Mode(), kTwoPhaseParallel);
  EXPECT_EQ(Epoch(), epoch);
  EXPECT_EQ(Reason(), "TwoPhaseParallel: spec.exchange.mode asks for it");
}

TEST_F(ExchangeModeTest, IsTheDefaultWithItsReasonWhereNothingWasMeasured) {
  link_.reset();
  sim_.Run(Seconds(180));
  EXPECT_EQ(Mode(), kTwoPhaseParallel);
  EXPECT_TRUE(Contains(Reason(), "no link was measured; ")) << Reason();
  EXPECT_TRUE(Contains(Reason(), "its answers took too long")) << Reason();
}

// The first epoch was Direct because nothing could be bundled, not because Direct is fast.
TEST(GrownService, TakesTheDefaultWhereItsModeWasNoChoice) {
  SimulatedService sim;
  sim.workers.measured = [](Rank) { return std::nullopt; };
  sim.Apply(1, 1);
  sim.Patch(R"({"spec":{"roles":{"attention":{"instancesPerPod":4}}}})");
  sim.RunUntil("Ready");
  ASSERT_EQ(sim.Topology()->spec.committed->mode, kDirect);
  sim.Patch(R"({"spec":{"roles":{"attention":{"replicas":4}}}})");
  sim.Run(Seconds(180));
  const TopologyRecord committed = *sim.Topology()->spec.committed;
  EXPECT_EQ(committed.instances.size(), 5u);
  EXPECT_EQ(committed.mode, kTwoPhaseParallel);
}

// Four expert pods of two instances; each has an eighth of the experts, and a row chooses two.
class GateTest : public testing::Test {
 protected:
  GateTest() {
    sim_.workers.measured = [this](Rank) { return link_; };
    sim_.Apply(2, 8);
    sim_.Patch(
        R"({"spec":{"roles":{"experts":{"instancesPerPod":2,"slotsPerInstance":1}},
            "exchange":{"mode":"TwoPhaseParallel"}}})");
    sim_.RunUntil("Ready");
  }
  const TopologyRecord& Committed() {
    topology_ = sim_.Topology();
    return *topology_->spec.committed;
  }
  std::string Status(FieldPath path) { return std::string(TextAt(sim_.Service(), path)); }

  SimulatedService sim_;
  std::optional<MoETopology> topology_;
  // The latency decides, so either side takes about as long.
  std::optional<MeasuredLink> link_ = MeasuredLink{5e-3, 1e10, 1e-7};
};

TEST_F(GateTest, MovesOnceWhereFewRowsAreNeeded) {
  sim_.Run(Seconds(180));
  EXPECT_EQ(Committed().gate, janus::GateSide::kExperts);
  const int64_t epoch = Committed().epoch;
  link_ = MeasuredLink{1e-4, 1e5, 0};  // bytes decide
  sim_.Run(Seconds(180));
  EXPECT_EQ(Committed().gate, janus::GateSide::kAttention);
  EXPECT_EQ(Committed().epoch, epoch + 1);
  EXPECT_EQ(sim_.op().CountEvents("ExchangeModeChanged"), 1);
  const std::string event = sim_.op().LastText("ExchangeModeChanged");
  EXPECT_TRUE(Contains(event, "TwoPhaseParallel with the gate on attention")) << event;
  EXPECT_TRUE(Contains(event, "TwoPhaseParallel with the gate on experts; ")) << event;
  const std::string why = Status({"status", "topology", "exchangeReason"});
  EXPECT_TRUE(
      Contains(why, "TwoPhaseParallel: spec.exchange.mode asks for it; gate on attention: "))
      << why;
  EXPECT_TRUE(Contains(why, "ms a round, gate on experts ")) << why;
  EXPECT_EQ(Status({"status", "topology", "gate"}), "Attention");
  EXPECT_EQ(Status({"status", "effective", "gate"}), "Attention");
  // Another leader, which knows no figures yet, keeps it.
  sim_.RestartOperator();
  sim_.Run(Seconds(60));
  EXPECT_EQ(Committed().epoch, epoch + 1);
  EXPECT_EQ(Committed().gate, janus::GateSide::kAttention);
}

TEST_F(GateTest, StaysInAnEpochForAnotherReasonWhileNoLinkIsMeasured) {
  link_ = MeasuredLink{1e-4, 1e5, 0};
  sim_.Run(Seconds(180));
  ASSERT_EQ(Committed().gate, janus::GateSide::kAttention);
  link_.reset();  // no longer
  sim_.Run(Seconds(60));
  const int64_t epoch = Committed().epoch;
  for (const char* replicas : {"4", "2"}) {
    SCOPED_TRACE(replicas);
    sim_.Patch(std::string(R"({"spec":{"roles":{"attention":{"replicas":)") + replicas + "}}}}");
    sim_.Run(Seconds(180));
    EXPECT_EQ(Committed().gate, janus::GateSide::kAttention);
  }
  EXPECT_GE(Committed().epoch, epoch + 2);
  EXPECT_EQ(sim_.op().CountEvents("ExchangeModeChanged"), 1);
}

TEST_F(GateTest, OfTheUserIsKept) {
  link_ = MeasuredLink{1e-4, 1e5, 0};
  sim_.Run(Seconds(180));
  ASSERT_EQ(Committed().gate, janus::GateSide::kAttention);
  const int64_t epoch = Committed().epoch;
  sim_.Patch(R"({"spec":{"exchange":{"gate":"Experts"}}})");
  sim_.Run(Seconds(180));
  EXPECT_EQ(Committed().gate, janus::GateSide::kExperts);
  EXPECT_EQ(Committed().epoch, epoch + 1);
  EXPECT_EQ(Status({"status", "topology", "exchangeReason"}),
            "TwoPhaseParallel: spec.exchange.mode asks for it");
}

}  // namespace
}  // namespace janus::control
