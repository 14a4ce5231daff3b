#include "controllers/simulate/fleet.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace janus::controllers {

Fleet::Fleet(ShapeBook* book, const Machinery& machinery, Recorder* recorder, const Wish& first)
    : book_(book), machinery_(machinery), recorder_(recorder), committed_(first) {
  const int units = first.is_separate ? first.how.pools : first.units;
  for (int i = 0; i < units; ++i) {
    const UnitShape& shape =
        first.is_separate ? book->Separate(first.how) : book->Whole(first.whole);
    Add(shape, first.is_separate ? 0 : first.whole.gpus, first.whole, 0);
  }
}

void Fleet::Add(const UnitShape& shape, int gpus, const WholeConfiguration& whole,
                double ready_at) {
  members_.push_back({next_id_++, std::make_unique<Unit>(shape, ready_at, recorder_), gpus, whole,
                      ready_at, false, 0});
}

int Fleet::CountStarting() const {
  return static_cast<int>(
      std::ranges::count_if(members_, [&](const Member& m) { return m.ready_at > now_; }));
}

int Fleet::Gpus() const {
  int gpus = 0;
  if (committed_.is_separate) {
    int attention = committed_.how.AttentionGpus();
    int experts = committed_.how.ExpertGpus();
    for (const Pending& pending : pending_) {
      attention = std::max(attention, pending.wish.how.AttentionGpus());
      experts = std::max(experts, pending.wish.how.ExpertGpus());
    }
    gpus = attention + experts;
  }
  for (const Member& member : members_) gpus += member.gpus;
  for (const Leaving& leaving : leaving_) gpus += leaving.gpus;
  return gpus;
}

int64_t Fleet::preempted() const {
  int64_t preempted = preempted_before_;
  for (const Member& member : members_) preempted += member.unit->counters().preempted;
  return preempted;
}

bool Fleet::IsEmpty() const {
  return std::ranges::all_of(members_, [](const Member& m) { return m.unit->IsEmpty(); });
}

void Fleet::Bill(double now) {
  recorder_->OnGpus(now, Gpus());
  now_ = std::max(now_, now);
}

double Fleet::NextEvent() const {
  double next = std::numeric_limits<double>::infinity();
  if (!pending_.empty()) next = std::min(next, pending_.front().ready_at);
  for (const Member& member : members_) {
    if (member.ready_at > now_) next = std::min(next, member.ready_at);
  }
  for (const Leaving& leaving : leaving_) next = std::min(next, leaving.until);
  return next;
}

void Fleet::AdvanceUnits(double until) {
  for (Member& member : members_) member.unit->AdvanceTo(until);
}

void Fleet::AdvanceTo(double until) {
  LetGo(until);
  for (double next = NextEvent(); next <= until; next = NextEvent()) {
    AdvanceUnits(next);
    HandleEvents(next);
    LetGo(until);
  }
  AdvanceUnits(until);
}

// Draining instances get no new requests: they can be simulated to their last token at once. Their
// GPUs are freed a drain time later.
void Fleet::LetGo(double until) {
  std::erase_if(members_, [&](Member& member) {
    if (!member.is_draining) return false;
    member.unit->AdvanceTo(until);
    if (!member.unit->IsEmpty()) return false;
    preempted_before_ += member.unit->counters().preempted;
    leaving_.push_back(
        {std::max(member.unit->now(), member.drained_at) + machinery_.drain_s, member.gpus});
    return true;
  });
}

void Fleet::HandleEvents(double now) {
  Bill(now);
  std::erase_if(leaving_, [&](const Leaving& leaving) { return leaving.until <= now; });
  while (!pending_.empty() && pending_.front().ready_at <= now) {
    const Pending ready = pending_.front();
    pending_.erase(pending_.begin());
    last_start_ = now - ready.since;
    Commit(ready.wish, now);
  }
  if (!committed_.is_separate) ApplyWhole(committed_, now);
}

void Fleet::Drain(Member& member, double now, std::vector<SimulatedRequest>& orphans) {
  member.is_draining = true;
  member.drained_at = now;
  for (const SimulatedRequest& request : member.unit->TakeWaiting()) orphans.push_back(request);
}

void Fleet::Commit(const Wish& wish, double now) {
  const Configuration before = committed_.how;
  const Configuration& how = wish.how;
  const int gone = std::max(before.AttentionGpus() - how.AttentionGpus(), 0) +
                   std::max(before.ExpertGpus() - how.ExpertGpus(), 0);
  if (gone > 0) leaving_.push_back({now + machinery_.drain_s, gone});
  committed_ = wish;
  changed_at_ = now;
  const UnitShape& shape = book_->Separate(how);
  const double after_pause = now + machinery_.change_pause_s;
  Unit::Contents moving;
  const auto staying = static_cast<size_t>(std::min(how.pools, before.pools));
  for (size_t i = 0; i < staying; ++i) {
    Unit& unit = *members_[i].unit;
    if (how.pools > before.pools && how.m < before.m) {
      const int64_t rows = unit.Now().running * (before.m - how.m) / before.m;
      for (const Unit::InProgress& one : unit.TakeRunning(rows)) moving.running.push_back(one);
    }
    unit.Reshape(shape, machinery_.change_pause_s);
  }
  size_t first = 0;  // first unit that gets moved sequences
  if (members_.size() > staying) {
    for (size_t i = staying; i < members_.size(); ++i) {
      Unit::Contents all = members_[i].unit->TakeAll();
      preempted_before_ += members_[i].unit->counters().preempted;
      std::ranges::move(all.running, std::back_inserter(moving.running));
      std::ranges::move(all.waiting, std::back_inserter(moving.waiting));
    }
    members_.resize(staying);
  } else {
    first = members_.size();
    while (members_.size() < static_cast<size_t>(how.pools)) Add(shape, 0, {}, now);
    if (first == members_.size()) first = 0;
  }
  const size_t receivers = members_.size() - first;
  for (size_t i = 0; i < moving.running.size(); ++i) {
    members_[first + i % receivers].unit->Adopt(moving.running[i], after_pause);
  }
  for (size_t i = 0; i < moving.waiting.size(); ++i) {
    members_[first + i % receivers].unit->AdoptWaiting(moving.waiting[i], after_pause);
  }
}

void Fleet::Apply(const Wish& wish, double now) {
  Bill(now);
  if (!wish.is_separate) {
    ApplyWhole(wish, now);
    return;
  }
  const Configuration& to = wish.how;
  const auto adds = [&](const Configuration& from) {
    return to.AttentionGpus() >= from.AttentionGpus() && to.ExpertGpus() >= from.ExpertGpus();
  };
  if (!pending_.empty() && pending_.back().wish == wish) return;
  while (!pending_.empty() && !adds(pending_.back().wish.how)) pending_.pop_back();
  if (wish == committed_) {
    pending_.clear();
    return;
  }
  const Configuration& from = committed_.how;
  if (pending_.empty() && to.pools <= from.pools && to.m <= from.m && to.n <= from.n) {
    Commit(wish, now);
    return;
  }
  pending_.push_back({wish, now, now + machinery_.start_s});
}

void Fleet::ApplyWhole(const Wish& wish, double now) {
  committed_ = wish;
  const UnitShape& shape = book_->Whole(wish.whole);
  const auto is_other = [&](const Member& m) { return !(m.whole == wish.whole); };
  int staying = 0;
  int ready = 0;
  for (const Member& m : members_) {
    const bool is_wanted = !m.is_draining && !is_other(m);
    staying += is_wanted ? 1 : 0;
    ready += is_wanted && m.ready_at <= now ? 1 : 0;
  }
  for (; staying < wish.units; ++staying) {
    Add(shape, wish.whole.gpus, wish.whole, now + machinery_.start_s);
  }
  // First stop instances that are not ready, the latest first; then the least loaded.
  for (auto m = members_.end(); m != members_.begin() && staying > wish.units;) {
    --m;
    if (m->ready_at <= now || is_other(*m)) continue;
    m = members_.erase(m);
    --staying;
  }
  // Instances of another size stay until one of the wanted size is ready.
  std::vector<SimulatedRequest> orphans;
  while (staying > wish.units) {
    Member* least = nullptr;
    for (Member& m : members_) {
      if (m.is_draining || is_other(m) || m.ready_at > now) continue;
      if (least == nullptr || m.unit->Now().running < least->unit->Now().running) least = &m;
    }
    if (least == nullptr) break;
    Drain(*least, now, orphans);
    --staying;
  }
  if (ready > 0) {
    for (Member& m : members_) {
      if (is_other(m) && !m.is_draining) Drain(m, now, orphans);
    }
  }
  for (const SimulatedRequest& request : orphans) Arrive(request);
}

// Load counts running and waiting sequences. Ties go to the first.
Fleet::Member& Fleet::LeastLoaded(double now) {
  Member* least = nullptr;
  double least_load = 0;
  for (Member& m : members_) {
    if (m.is_draining || m.ready_at > now) continue;
    const Unit::Load load = m.unit->Now();
    const double share = static_cast<double>(load.running + load.waiting) / std::max(m.gpus, 1);
    if (least == nullptr || share < least_load) {
      least = &m;
      least_load = share;
    }
  }
  return least != nullptr ? *least : members_.front();
}

void Fleet::Arrive(const SimulatedRequest& request) {
  if (members_.size() == 1) {
    members_[0].unit->Arrive(request);
  } else {
    LeastLoaded(std::max(now_, request.arrival)).unit->Arrive(request);
  }
}

}  // namespace janus::controllers
