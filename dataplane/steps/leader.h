#pragma once

#include "common/topology.h"
#include "dataplane/steps/abort_round.h"
#include "dataplane/steps/coordinator.h"
#include "dataplane/steps/step_control.h"

namespace janus::dataplane {

// Step control of attention 0: carries what the Coordinator decides to the members and what they
// say to it, and gives up a step with all of them.
class Leader final : public StepControl {
 public:
  // `transport` and `clock` must outlive it.
  Leader(const CoordinatorOptions& options, const Topology& topology, StepDeadlines deadlines,
         Transport& transport, const Clock& clock, Logger log);

  bool Poll() override;
  std::optional<Ticket> Next() override;
  Status Say(uint64_t for_step, const Demand& demand) override;
  MonotonicTime NextDeadline() const override { return coordinator_.NextDeadline(); }
  Status Miss(const RoundKey& round, const Status& why) override;
  bool leaving() const override { return abort_.has_value(); }
  Status Leave(Exchange& exchange, FunctionRef<Demand()> demand,
               const std::stop_token& stop) override;

 private:
  void Read(PeerId from);
  bool OnDemand(PeerId from);
  bool OnMiss(PeerId from);
  bool OnLeft(PeerId from);
  // What a member says of a round that made it leave its step, or that it was in.
  struct Word {
    PeerId by;
    RoundKey round;
    RoundTrouble trouble = RoundTrouble::kAwaited;
    std::string why;
  };
  void Begin(Word word);
  // Whether it says more of the fault than what is known: who waits for the earliest round waits
  // for nobody who waits himself.
  bool Explains(const Word& word) const;
  // While the step is being left.
  void Consider(Word word);
  void Believe(Word word);
  Status Announce(int member);
  Status Issue();

  const int members_;
  const std::vector<PeerId> peers_;
  const Clock& clock_;
  Coordinator coordinator_;
  std::optional<Ticket> ticket_;  // issued, not yet taken
  std::optional<AbortRound> abort_;
  Word cause_;                // of the last step given up
  uint64_t left_before_ = 0;  // steps up to it were given up before
};

}  // namespace janus::dataplane
