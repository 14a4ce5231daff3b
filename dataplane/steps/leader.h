#pragma once

#include "common/topology.h"
#include "dataplane/steps/abort_round.h"
#include "dataplane/steps/coordinator.h"
#include "dataplane/steps/step_control.h"

namespace janus::dataplane {

// Step control of attention 0. It sends the Coordinator's decisions to the members, passes their
// messages to the Coordinator, and gives up a step together with all members.
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
  // A member's report about a round that it missed, or that it was in when it left its step.
  struct Word {
    PeerId by;
    RoundKey round;
    RoundTrouble trouble = RoundTrouble::kAwaited;
    std::string why;
  };
  void Begin(Word word);
  // Whether this report says more about the fault than the one so far. A member that waits for the
  // earliest round cannot be waiting for another waiting member.
  bool Explains(const Word& word) const;
  // For reports that arrive while the step is being left.
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
