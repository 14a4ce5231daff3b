#include "controllers/simulate/fleet.h"

#include <algorithm>
#include <limits>

namespace janus::controllers {

Fleet::Fleet(ShapeBook* book, const Machinery& machinery, Recorder* recorder, const Wish& first)
    : book_(book), machinery_(machinery), recorder_(recorder), committed_(first) {
  const int units = first.is_separate ? 1 : first.units;
  for (int i = 0; i < units; ++i) {
    const UnitShape& shape =
        first.is_separate ? book->Separate(first.how) : book->Whole(first.gpus_each);
    Add(shape, first.is_separate ? 0 : first.gpus_each, 0);
  }
}

void Fleet::Add(const UnitShape& shape, int gpus, double ready_at) {
  members_.push_back(
      {next_id_++, std::make_unique<Unit>(shape, ready_at, recorder_), gpus, ready_at, false, 0});
}

int Fleet::CountStarting() const {
  return static_cast<int>(
      std::ranges::count_if(members_, [&](const Member& m) { return m.ready_at > now_; }));
}

int Fleet::Gpus() const {
  int gpus = 0;
  if (committed_.is_separate) {
    Configuration most = committed_.how;
    if (pending_) {
      most.m = std::max(most.m, pending_->how.m);
      most.n = std::max(most.n, pending_->how.n);
    }
    gpus = most.m * most.tp_attention + most.n * most.tp_experts;
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
  if (pending_) next = std::min(next, pending_ready_);
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

// Draining instances get nothing new, so they run ahead to their last token; their GPUs leave a
// drain after it.
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
  if (pending_ && pending_ready_ <= now) {
    const Wish wish = *pending_;
    pending_.reset();
    last_start_ = now - pending_since_;
    Commit(wish, now);
  }
  if (!committed_.is_separate) ApplyWhole(committed_, now);
}

void Fleet::Commit(const Wish& wish, double now) {
  const int gone_m = std::max(committed_.how.m - wish.how.m, 0);
  const int gone_n = std::max(committed_.how.n - wish.how.n, 0);
  const int gone = gone_m * committed_.how.tp_attention + gone_n * committed_.how.tp_experts;
  if (gone > 0) leaving_.push_back({now + machinery_.drain_s, gone});
  committed_ = wish;
  changed_at_ = now;
  members_[0].unit->Reshape(book_->Separate(wish.how), machinery_.change_pause_s);
}

void Fleet::Apply(const Wish& wish, double now) {
  Bill(now);
  if (!wish.is_separate) {
    ApplyWhole(wish, now);
    return;
  }
  if (pending_ && *pending_ == wish) return;
  pending_.reset();
  if (wish == committed_) return;
  if (wish.how.m <= committed_.how.m && wish.how.n <= committed_.how.n) {
    Commit(wish, now);
    return;
  }
  pending_ = wish;
  pending_since_ = now;
  pending_ready_ = now + machinery_.start_s;
}

void Fleet::ApplyWhole(const Wish& wish, double now) {
  committed_ = wish;
  const UnitShape& shape = book_->Whole(wish.gpus_each);
  int staying = 0;
  int ready = 0;
  for (const Member& m : members_) {
    const bool is_wanted = !m.is_draining && m.gpus == wish.gpus_each;
    staying += is_wanted ? 1 : 0;
    ready += is_wanted && m.ready_at <= now ? 1 : 0;
  }
  for (; staying < wish.units; ++staying) {
    Add(shape, wish.gpus_each, now + machinery_.start_s);
  }
  // Those that are not ready yet go first, the latest before; then the least loaded.
  for (auto m = members_.end(); m != members_.begin() && staying > wish.units;) {
    --m;
    if (m->ready_at <= now || m->gpus != wish.gpus_each) continue;
    m = members_.erase(m);
    --staying;
  }
  // Instances of another size stay until one of the wanted size is ready.
  std::vector<SimulatedRequest> orphans;
  const auto drain = [&](Member& m) {
    m.is_draining = true;
    m.drained_at = now;
    for (const SimulatedRequest& request : m.unit->TakeWaiting()) orphans.push_back(request);
  };
  while (staying > wish.units) {
    Member* least = nullptr;
    for (Member& m : members_) {
      if (m.is_draining || m.gpus != wish.gpus_each || m.ready_at > now) continue;
      if (least == nullptr || m.unit->Now().running < least->unit->Now().running) least = &m;
    }
    if (least == nullptr) break;
    drain(*least);
    --staying;
  }
  if (ready > 0) {
    for (Member& m : members_) {
      if (m.gpus != wish.gpus_each && !m.is_draining) drain(m);
    }
  }
  for (const SimulatedRequest& request : orphans) Arrive(request);
}

// By sequences it has or waits for; the first of equals.
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
