#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "dataplane/steps/step_control.h"
#include "dataplane/steps/step_times.h"

namespace janus::dataplane {

struct CoordinatorOptions {
  int m = 1;
  int max_rows = 512;        // R_max of one instance
  Seconds tpot_target{0.1};  // what a step may take before prompts are held back
  double patience = 0.1;     // of the predicted step, for the others
  // Of a decode step's time, what prompts have where the target leaves them less.
  double least_prefill_share = 0.1;
};

// What an attention instance says at the start of a step about the one after it.
struct DemandNote {
  Demand demand;
  uint64_t for_step = 0;
};

// Decides who takes part in which step. One ticket is out ahead of the running step. A ticket is
// issued when every participant of the step before has said what it brings next (each does so at
// the start of its step, so that step is then running everywhere), or when patience ends: 10 % of
// the predicted step after the first was ready; an instance that was left out of the last step with
// work in hand is waited for up to the detection deadline instead, once, and then not until it
// speaks. Whatever it says then holds, be it of a step that went without it: the ticket that told
// it so may have been lost.
//
// Confined to the step thread of the lowest attention rank. Time is passed in.
class Coordinator {
 public:
  explicit Coordinator(const CoordinatorOptions& options);

  void OnDemand(int rank, const DemandNote& note, MonotonicTime now);

  // Whether a member that has a part in the newest step asks for that step so long after its ticket
  // went out that the ticket must be lost: where the experts have not got theirs either, nobody
  // else would miss a round of it.
  bool HasLostTicket(int rank, uint64_t asked_for, MonotonicTime now, Seconds after) const;

  // The next ticket, if it is due.
  std::optional<Ticket> Next(MonotonicTime now);

  // The steps up to `fence`, at least all that were issued, are given up: the next ticket's number
  // is above it, and nobody is in it who has not spoken for it.
  void Void(uint64_t fence);

  // How long an instance that was left out before is waited for, from now on: the detection
  // deadline.
  void WaitForLeftOut(Seconds at_most) { left_out_patience_ = at_most; }

  // When Next should be asked again even if no demand arrives; max() when nothing is pending.
  MonotonicTime NextDeadline() const;

  uint64_t sit_outs(int rank) const { return members_[static_cast<size_t>(rank)].sit_outs; }
  const StepTimes& step_times() const { return times_; }

 private:
  // What a member has to say before it is ready for the next ticket.
  enum class Owes {
    kNothing,     // what it said last still holds
    kNextDemand,  // took part in the last issued step: a demand for the next one
    kAnyDemand,   // had work, but the last ticket went out without it
    kUnheard      // the same, and it was waited for in vain
  };
  struct Member {
    Demand demand;
    uint64_t demand_for = 1;  // the step the demand is for
    Owes owes = Owes::kNothing;
    uint64_t sit_outs = 0;
    // The rows and the time of its last step, until they count towards those of all.
    StepRows last_rows;
    Seconds last_step{0};
    bool has_work() const { return demand.decode_rows + demand.prefill_rows > 0; }
  };

  bool Ready(const Member& member) const;
  // Records the step that the members of the last ticket have reported since.
  void RecordStep();
  Ticket Issue(MonotonicTime now);

  const CoordinatorOptions options_;
  std::vector<Member> members_;
  StepTimes times_;
  uint64_t next_step_ = 1;
  std::optional<MonotonicTime> issued_;  // the newest ticket, unless it is void
  std::optional<MonotonicTime> first_ready_;
  Seconds left_out_patience_{StepDeadlines().detection};
};

// Splits a budget of prompt positions over instances so that the largest load is least: load counts
// decode rows and granted positions, nobody is granted more than it wants, than its rows allow or
// than is for each. Positions nobody asked for go to the least loaded, for requests that arrive
// meanwhile.
std::vector<int> SharePrefill(PrefillBudget budget, const std::vector<Demand>& demands,
                              int max_rows);

}  // namespace janus::dataplane
