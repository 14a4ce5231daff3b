#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "common/prompt_share.h"
#include "dataplane/steps/step_control.h"
#include "dataplane/steps/step_times.h"

namespace janus::dataplane {

struct CoordinatorOptions {
  int m = 1;
  int max_rows = 512;        // R_max of one instance
  Seconds prompt_step{0.1};  // what a step may take before prompts are held back
  double patience = 0.1;     // part of the predicted step that Next waits for the other instances
  // Share of a decode step's time that prompts get even if the target leaves them less.
  double least_prefill_share = kLeastPromptShare;
};

// What an attention instance reports at the start of a step about the one after it.
struct DemandNote {
  Demand demand;
  uint64_t for_step = 0;
};

// Decides which instances take part in which step. One ticket is out ahead of the running step. The
// next ticket is issued when every participant of the step before has reported its next demand.
// Each reports at the start of its step, so that step is then running everywhere. The ticket is
// also issued when patience ends: 10 % of the predicted step after the first participant was ready.
//
// The coordinator waits longer for an instance that had work and was left out of the last step: up
// to the detection deadline, once, and then not until it reports again. That report counts, even if
// it is about a step that ran without the instance: the ticket of that step may have been lost.
//
// Confined to the step thread of the lowest attention rank. Time is passed in.
class Coordinator {
 public:
  explicit Coordinator(const CoordinatorOptions& options);

  void OnDemand(int rank, const DemandNote& note, MonotonicTime now);

  // Whether a ticket must be lost: a member takes part in the newest step and still asks for it
  // `after` its ticket was sent. If the expert instances have lost their tickets too, no other
  // member would miss a round of that step.
  bool HasLostTicket(int rank, uint64_t asked_for, MonotonicTime now, Seconds after) const;

  // The next ticket, if it is due.
  std::optional<Ticket> Next(MonotonicTime now);

  // The steps up to `fence`, at least all that were issued, are given up. The next ticket's number
  // is above it, and only members that have reported a demand for it take part.
  void Void(uint64_t fence);

  // Sets how long Next waits for an instance that was left out: the detection deadline.
  void WaitForLeftOut(Seconds at_most) { left_out_patience_ = at_most; }

  // When Next must be called again even if no demand arrives; max(): nothing is pending.
  MonotonicTime NextDeadline() const;

  uint64_t sit_outs(int rank) const { return members_[static_cast<size_t>(rank)].sit_outs; }
  const StepTimes& step_times() const { return times_; }

 private:
  // What a member must report before it is ready for the next ticket.
  enum class Owes {
    kNothing,     // its last demand still holds
    kNextDemand,  // took part in the last issued step: a demand for the next one
    kAnyDemand,   // had work, but the last ticket went out without it
    kUnheard      // the same, and it did not report while Next waited for it
  };
  struct Member {
    Demand demand;
    uint64_t demand_for = 1;  // the step the demand is for
    Owes owes = Owes::kNothing;
    uint64_t sit_outs = 0;
    // The rows and the time of its last step, until RecordStep has combined them with those of the
    // others.
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

// Splits a budget of prompt positions over instances so that the largest load is as small as
// possible. Load counts decode rows and granted positions. No instance gets more than it asks for,
// than its rows allow or than the budget allows for each. Positions that no instance asks for go to
// the least loaded ones, for requests that arrive meanwhile.
std::vector<int> SharePrefill(PrefillBudget budget, const std::vector<Demand>& demands,
                              int max_rows);

}  // namespace janus::dataplane
