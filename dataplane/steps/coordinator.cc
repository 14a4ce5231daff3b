#include "dataplane/steps/coordinator.h"

#include <algorithm>

namespace janus::dataplane {
namespace {

// Bounds the values of a demand, because it comes from another process. Values that no correct
// instance sends must not overflow sums of ints or the table of step times.
Demand Bounded(Demand demand, int max_rows) {
  constexpr uint32_t kManyPrompts = 1u << 24;
  constexpr int64_t kLongestStepNs = 3600 * int64_t{1'000'000'000};
  const auto rows = static_cast<uint32_t>(max_rows);
  demand.decode_rows = std::min(demand.decode_rows, rows);
  demand.prefill_rows = std::min(demand.prefill_rows, kManyPrompts);
  demand.last_decode_rows = std::min(demand.last_decode_rows, rows);
  demand.last_prefill_rows = std::min(demand.last_prefill_rows, rows);
  demand.last_step_ns = std::min(demand.last_step_ns, kLongestStepNs);
  return demand;
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options)
    : options_(options), members_(static_cast<size_t>(options.m)) {}

void Coordinator::OnDemand(int rank, const DemandNote& note, MonotonicTime now) {
  Member& member = members_[static_cast<size_t>(rank)];
  if (note.for_step < member.demand_for) return;  // a newer one is already here
  // No member can have seen the ticket before that step. Accepting the number would hide later
  // demands.
  if (note.for_step > next_step_) return;
  member.demand = Bounded(note.demand, options_.max_rows);
  member.demand_for = note.for_step;
  if (member.owes != Owes::kNextDemand) member.owes = Owes::kNothing;
  if (member.demand.last_step_ns > 0) {
    member.last_rows.decode = static_cast<int>(member.demand.last_decode_rows);
    member.last_rows.prefill = static_cast<int>(member.demand.last_prefill_rows);
    member.last_step = std::chrono::nanoseconds(member.demand.last_step_ns);
  }
  if (!first_ready_ && Ready(member) && member.has_work()) first_ready_ = now;
}

bool Coordinator::Ready(const Member& member) const {
  if (member.owes == Owes::kNextDemand) return member.demand_for == next_step_;
  return member.owes == Owes::kNothing;
}

bool Coordinator::HasLostTicket(int rank, uint64_t asked_for, MonotonicTime now,
                                Seconds after) const {
  const Member& member = members_[static_cast<size_t>(rank)];
  const bool has_part = issued_ && member.owes == Owes::kNextDemand;
  return has_part && asked_for + 1 == next_step_ && member.demand_for == asked_for &&
         now - *issued_ > after;
}

std::optional<Ticket> Coordinator::Next(MonotonicTime now) {
  const bool any = std::any_of(members_.begin(), members_.end(),
                               [&](const Member& m) { return Ready(m) && m.has_work(); });
  if (!any) {
    first_ready_.reset();
    return std::nullopt;
  }
  if (!first_ready_) first_ready_ = now;
  const bool all = std::all_of(members_.begin(), members_.end(), [&](const Member& m) {
    return Ready(m) || m.owes == Owes::kUnheard;
  });
  if (!all && now < NextDeadline()) return std::nullopt;
  return Issue(now);
}

void Coordinator::Void(uint64_t fence) {
  next_step_ = std::max(next_step_, fence + 1);
  for (Member& member : members_) {
    member.owes = Owes::kNextDemand;
    // This demand counted on the step that is given up.
    member.demand_for = 0;
  }
  issued_.reset();
  first_ready_.reset();
}

MonotonicTime Coordinator::NextDeadline() const {
  if (!first_ready_) return MonotonicTime::max();
  // Predict by the largest demand, as RecordStep records steps.
  Demand largest;
  bool waits_for_left_out = false;
  for (const Member& m : members_) {
    if (Ready(m)) {
      largest.decode_rows = std::max(largest.decode_rows, m.demand.decode_rows);
      largest.prefill_rows = std::max(largest.prefill_rows, m.demand.prefill_rows);
    } else {
      waits_for_left_out = waits_for_left_out || m.owes == Owes::kAnyDemand;
    }
  }
  const Seconds step =
      times_.Predict(static_cast<int>(largest.decode_rows), static_cast<int>(largest.prefill_rows));
  const Seconds patience = waits_for_left_out ? left_out_patience_ : step * options_.patience;
  return *first_ready_ + std::chrono::duration_cast<MonotonicClock::duration>(patience);
}

void Coordinator::RecordStep() {
  StepRows rows;
  Seconds took(0);
  for (Member& member : members_) {
    // A late report is about a different step than the others.
    if (member.demand_for == next_step_) {
      rows.decode = std::max(rows.decode, member.last_rows.decode);
      rows.prefill = std::max(rows.prefill, member.last_rows.prefill);
      rows.prefill_total += member.last_rows.prefill;
      took = std::max(took, member.last_step);
    }
    member.last_rows = StepRows();
    member.last_step = Seconds(0);
  }
  if (took.count() > 0) times_.Record(rows, took);
}

Ticket Coordinator::Issue(MonotonicTime now) {
  RecordStep();
  std::vector<Demand> demands(members_.size());
  int largest_decode = 0;
  for (size_t r = 0; r < members_.size(); ++r) {
    if (!Ready(members_[r])) continue;
    demands[r] = members_[r].demand;
    largest_decode = std::max(largest_decode, static_cast<int>(demands[r].decode_rows));
  }
  const PrefillBudget budget =
      times_.Prefill(options_.prompt_step, largest_decode, options_.least_prefill_share,
                     options_.max_rows, static_cast<int>(members_.size()));
  std::vector<int> prefill = SharePrefill(budget, demands, options_.max_rows);
  // A neighbour without decode rows but with endless prompts could take the whole budget.
  for (size_t r = 0; r < demands.size(); ++r) {
    if (demands[r].prefill_rows > 0) prefill[r] = std::max(prefill[r], 1);
  }

  Ticket ticket;
  ticket.step = next_step_;
  ticket.shares.resize(members_.size());
  for (size_t r = 0; r < members_.size(); ++r) {
    Member& member = members_[r];
    const bool ready = Ready(member);
    if (!ready) {
      ++member.sit_outs;
      const bool again = member.owes != Owes::kNextDemand;
      member.owes = again ? Owes::kUnheard : Owes::kAnyDemand;
      continue;
    }
    member.owes = member.has_work() ? Owes::kNextDemand : Owes::kNothing;
    if (!member.has_work()) continue;
    ticket.shares[r].row_limit = static_cast<uint16_t>(options_.max_rows);
    ticket.shares[r].prefill_budget =
        static_cast<uint16_t>(std::min(prefill[r], options_.max_rows));
  }
  ++next_step_;
  issued_ = now;
  first_ready_.reset();
  return ticket;
}

std::vector<int> SharePrefill(PrefillBudget budget, const std::vector<Demand>& demands,
                              int max_rows) {
  const size_t m = demands.size();
  std::vector<int> granted(m, 0), cap(m, 0), load(m, 0);
  std::vector<bool> in(m, false);
  for (size_t r = 0; r < m; ++r) {
    in[r] = demands[r].decode_rows + demands[r].prefill_rows > 0;
    load[r] = static_cast<int>(demands[r].decode_rows);
    cap[r] = in[r] ? std::clamp(max_rows - load[r], 0, budget.each) : 0;
  }
  // Raise the least loaded instances level by level. Whole chunks keep this cheap for budgets of
  // thousands.
  const auto pour = [&](auto&& room) {
    while (budget.total > 0) {
      int lowest = -1;
      for (size_t r = 0; r < m; ++r) {
        if (room(r) > 0 && (lowest < 0 || load[r] < load[static_cast<size_t>(lowest)]))
          lowest = static_cast<int>(r);
      }
      if (lowest < 0) return;
      const auto at = static_cast<size_t>(lowest);
      const int step = std::min({budget.total, room(at), 8});
      granted[at] += step;
      load[at] += step;
      budget.total -= step;
    }
  };
  pour([&](size_t r) {
    const int64_t wanted = int64_t{demands[r].prefill_rows} - granted[r];
    return static_cast<int>(std::min<int64_t>(wanted, cap[r] - granted[r]));
  });
  pour([&](size_t r) { return cap[r] - granted[r]; });
  return granted;
}

}  // namespace janus::dataplane
