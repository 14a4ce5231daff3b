// Which exchange mode a service gets from what its members have measured, on the store in this
// process, in simulated time.

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

}  // namespace
}  // namespace janus::control
