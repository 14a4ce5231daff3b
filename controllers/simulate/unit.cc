#include "controllers/simulate/unit.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace janus::controllers {

Unit::Unit(UnitShape shape, double now, UnitListener* listener)
    : shape_(std::move(shape)), listener_(listener), now_(now) {}

int Unit::NewSlot() {
  if (free_.empty()) {
    slots_.emplace_back();
    return static_cast<int>(slots_.size()) - 1;
  }
  const int slot = free_.back();
  free_.pop_back();
  return slot;
}

void Unit::FreeSlot(int slot) {
  Sequence& sequence = slots_[slot];
  const uint32_t life = sequence.life + 1;
  sequence = Sequence();
  sequence.life = life;
  free_.push_back(slot);
}

void Unit::Arrive(const SimulatedRequest& request) {
  if (running_rows_ == 0 && prompts_.empty() && waiting_.empty()) {
    now_ = std::max(now_, request.arrival);
  }
  const int64_t all_keys = int64_t{request.input} + request.output;
  const int64_t room = shape_.most_waiting - waiting_requests_;
  if (all_keys > shape_.kv_tokens || room <= 0) {
    listener_->OnRefused(request, request.arrival);
    return;
  }
  const int slot = NewSlot();
  slots_[slot].request = request;
  if (request.weight > room) {
    SimulatedRequest refused = request;
    refused.weight = static_cast<int32_t>(request.weight - room);
    slots_[slot].request.weight = static_cast<int32_t>(room);
    listener_->OnRefused(refused, request.arrival);
  }
  waiting_.push_back(slot);
  waiting_requests_ += slots_[slot].request.weight;
  waiting_tokens_ += slots_[slot].request.weight * slots_[slot].PromptRows();
}

int64_t Unit::Fitting(int slot) const {
  // One more key per request, so that the next step finds room.
  const int64_t keys = shape_.kv_tokens - running_keys_ - prompt_keys_ - running_rows_;
  const int64_t places = shape_.most_running - running_rows_ - prompt_requests_;
  const Sequence& one = slots_[slot];
  const int64_t reserve = shape_.growth_reserve_percent;
  const int64_t fits = std::min(
      (100 * keys - reserve * tokens_left_) /
          (100 * (one.PromptTokens() + 1) + reserve * (one.request.output - one.generated)),
      places);
  return std::clamp<int64_t>(fits, 0, slots_[slot].request.weight);
}

void Unit::Admit() {
  while (!waiting_.empty()) {
    const int slot = waiting_.front();
    const auto weight = static_cast<int32_t>(Fitting(slot));
    if (weight == 0) {
      // If the unit is otherwise empty, there will never be more room.
      const bool is_alone = running_rows_ == 0 && prompts_.empty();
      if (!is_alone) return;
      waiting_.pop_front();
      waiting_requests_ -= slots_[slot].request.weight;
      waiting_tokens_ -= slots_[slot].request.weight * slots_[slot].PromptRows();
      listener_->OnRefused(slots_[slot].request, now_);
      FreeSlot(slot);
      continue;
    }
    int admitted = slot;
    if (weight < slots_[slot].request.weight) {
      admitted = NewSlot();
      slots_[admitted].request = slots_[slot].request;
      slots_[admitted].request.weight = weight;
      slots_[admitted].generated = slots_[slot].generated;
      slots_[admitted].first_token = slots_[slot].first_token;
      slots_[slot].request.weight -= weight;
    } else {
      waiting_.pop_front();
    }
    const int64_t tokens = weight * slots_[admitted].PromptRows();
    waiting_requests_ -= weight;
    waiting_tokens_ -= tokens;
    slots_[admitted].prompt_left = tokens;
    prompts_.push_back(admitted);
    prompt_requests_ += weight;
    prompt_tokens_left_ += tokens;
    prompt_keys_ += weight * slots_[admitted].PromptTokens();
    tokens_left_ += weight * int64_t{slots_[admitted].request.output - slots_[admitted].generated};
  }
}

void Unit::TakeOut(int slot) {
  Sequence& sequence = slots_[slot];
  const int32_t weight = sequence.request.weight;
  // A running sequence has a key for every token but the last.
  const int64_t steps_left = sequence.last_step - step_;
  sequence.generated = static_cast<int32_t>(sequence.request.output - steps_left);
  running_rows_ -= weight;
  running_keys_ -= weight * (sequence.PromptTokens() - 1);
  tokens_left_ -= weight * steps_left;
  (sequence.younger >= 0 ? slots_[sequence.younger].older : youngest_) = sequence.older;
  (sequence.older >= 0 ? slots_[sequence.older].younger : oldest_) = sequence.younger;
  sequence.older = sequence.younger = -1;
  ++sequence.life;
}

void Unit::Preempt(int slot) {
  TakeOut(slot);
  const Sequence& sequence = slots_[slot];
  const int32_t weight = sequence.request.weight;
  waiting_.push_front(slot);
  waiting_requests_ += weight;
  waiting_tokens_ += weight * sequence.PromptRows();
  counters_.preempted += weight;
}

void Unit::MakeRoom() {
  while (running_rows_ > 0 && running_keys_ + prompt_keys_ + running_rows_ > shape_.kv_tokens) {
    const int slot = youngest_;
    Preempt(slot);
    // Alone and still too large: it can never continue.
    if (running_rows_ == 0 && prompts_.empty() &&
        slots_[slot].PromptTokens() + 1 > shape_.kv_tokens) {
      waiting_.pop_front();
      waiting_requests_ -= slots_[slot].request.weight;
      waiting_tokens_ -= slots_[slot].request.weight * slots_[slot].PromptRows();
      listener_->OnRefused(slots_[slot].request, now_);
      FreeSlot(slot);
    }
  }
}

double Unit::MeanKeys() const {
  if (running_rows_ == 0) return 1;
  return static_cast<double>(running_keys_) / static_cast<double>(running_rows_);
}

void Unit::ShareOutPromptRows() {
  shares_.clear();
  shared_rows_ = 0;
  if (prompts_.empty()) return;
  const auto most = static_cast<int64_t>(
      shape_.steps->PromptRows(static_cast<double>(running_rows_), MeanKeys()));
  const int64_t of_one = (most + shape_.instances - 1) / shape_.instances;
  for (const int slot : prompts_) {
    const int64_t left = most - shared_rows_;
    if (left <= 0) break;
    const Sequence& sequence = slots_[slot];
    const int64_t rows = std::min({sequence.prompt_left, sequence.request.weight * of_one, left});
    shares_.push_back({slot, rows});
    shared_rows_ += rows;
  }
}

int64_t Unit::StepsToNextChange() const {
  int64_t steps = std::numeric_limits<int64_t>::max();
  if (!endings_.empty()) steps = endings_.front().step - step_;
  for (const Share& share : shares_) {
    steps = std::min(steps, slots_[share.slot].prompt_left / share.rows);
  }
  if (running_rows_ > 0) {
    const int64_t room = shape_.kv_tokens - running_keys_ - prompt_keys_;
    steps = std::min(steps, room / running_rows_);
  }
  return std::max<int64_t>(steps, 1);
}

void Unit::DropStaleEndings() {
  while (!endings_.empty() && slots_[endings_.front().slot].life != endings_.front().life) {
    std::pop_heap(endings_.begin(), endings_.end(), std::greater<>());
    endings_.pop_back();
  }
}

void Unit::AdvanceTo(double until) {
  while (now_ < until) {
    Admit();
    MakeRoom();
    if (running_rows_ == 0 && prompts_.empty()) {
      if (waiting_.empty()) return;
      continue;  // a preempted sequence is admitted again
    }
    Run(until);
  }
}

void Unit::Run(double until) {
  ShareOutPromptRows();
  DropStaleEndings();
  int64_t steps = StepsToNextChange();
  const auto rows = static_cast<double>(running_rows_);
  const double keys = MeanKeys();
  const StepTable::Line line = shape_.steps->At(rows, keys, static_cast<double>(shared_rows_));
  // The keys grow by one per step. The line is valid only until its end.
  if (running_rows_ > 0 && line.until - keys < static_cast<double>(steps)) {
    steps = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(line.until - keys)));
  }
  const double slope = running_rows_ > 0 ? line.per_key : 0;
  const auto seconds_of = [&](int64_t k) {
    const auto n = static_cast<double>(k);
    return n * line.seconds + slope * n * (n - 1) / 2;
  };
  // No step begins at or after `until`: finds the fewest steps that reach it.
  if (now_ + seconds_of(steps) > until) {
    int64_t low = 0;  // not enough
    int64_t high = steps;
    const double guess = (until - now_) / line.seconds;
    if (guess < static_cast<double>(steps)) {
      const auto near = static_cast<int64_t>(guess);
      if (near > low && now_ + seconds_of(near) < until) low = near;
      if (near + 2 < high && now_ + seconds_of(near + 2) >= until) high = near + 2;
    }
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (now_ + seconds_of(middle) < until ? low : high) = middle;
    }
    steps = high;
  }
  const double seconds = seconds_of(steps);
  now_ += seconds;
  step_ += steps;
  counters_.steps += steps;
  counters_.busy_seconds += seconds;
  counters_.prompt_tokens += steps * shared_rows_;
  if (running_rows_ > 0) {
    const auto n = static_cast<double>(steps);
    counters_.decoding_steps += steps;
    counters_.decode_tokens += steps * running_rows_;
    counters_.decode_keys += rows * (n * keys + n * (n - 1) / 2);
    running_keys_ += steps * running_rows_;
    tokens_left_ -= steps * running_rows_;
  }
  for (const Share& share : shares_) {
    slots_[share.slot].prompt_left -= steps * share.rows;
    prompt_tokens_left_ -= steps * share.rows;
  }
  // Ended sequences come first, then finished prompts: the order of their last tokens' rows.
  for (DropStaleEndings(); !endings_.empty() && endings_.front().step <= step_;
       DropStaleEndings()) {
    const int slot = endings_.front().slot;
    std::pop_heap(endings_.begin(), endings_.end(), std::greater<>());
    endings_.pop_back();
    Finish(slot);
  }
  for (size_t i = 0; i < shares_.size(); ++i) {
    const int slot = shares_[i].slot;
    if (slots_[slot].prompt_left == 0) Start(slot);
  }
  const auto worked_on = prompts_.begin() + static_cast<std::ptrdiff_t>(shares_.size());
  prompts_.erase(std::remove_if(prompts_.begin(), worked_on,
                                [&](int slot) { return slots_[slot].prompt_left == 0; }),
                 worked_on);
}

// The prompt's last step has sampled a token.
void Unit::Start(int slot) {
  Sequence& sequence = slots_[slot];
  const int32_t weight = sequence.request.weight;
  prompt_requests_ -= weight;
  prompt_keys_ -= weight * sequence.PromptTokens();
  if (sequence.generated == 0) {
    sequence.first_token = now_;
    listener_->OnFirstToken(sequence.request, now_);
  }
  ++sequence.generated;
  tokens_left_ -= weight;
  PutIn(slot);
}

void Unit::PutIn(int slot) {
  Sequence& sequence = slots_[slot];
  const int32_t weight = sequence.request.weight;
  running_rows_ += weight;
  // A key for every token but the last.
  running_keys_ += weight * (sequence.PromptTokens() - 1);
  sequence.last_step = step_ + sequence.request.output - sequence.generated;
  sequence.older = youngest_;
  (youngest_ >= 0 ? slots_[youngest_].younger : oldest_) = slot;
  youngest_ = slot;
  if (sequence.last_step == step_) {
    Finish(slot);
    return;
  }
  endings_.push_back({sequence.last_step, slot, sequence.life});
  std::push_heap(endings_.begin(), endings_.end(), std::greater<>());
}

void Unit::Finish(int slot) {
  Sequence& sequence = slots_[slot];
  const SimulatedRequest& request = sequence.request;
  running_rows_ -= request.weight;
  running_keys_ -= request.weight * (int64_t{request.input} + request.output - 1);
  (sequence.younger >= 0 ? slots_[sequence.younger].older : youngest_) = sequence.older;
  (sequence.older >= 0 ? slots_[sequence.older].younger : oldest_) = sequence.younger;
  listener_->OnFinished({request, sequence.first_token, now_});
  FreeSlot(slot);
}

void Unit::Reshape(const UnitShape& shape, double pause) {
  shape_ = shape;
  now_ += pause;
}

std::vector<SimulatedRequest> Unit::TakeWaiting() {
  std::vector<SimulatedRequest> taken;
  std::deque<int> kept;
  for (const int slot : waiting_) {
    if (slots_[slot].generated > 0) {  // it has begun on this unit
      kept.push_back(slot);
      continue;
    }
    const SimulatedRequest& request = slots_[slot].request;
    waiting_requests_ -= request.weight;
    waiting_tokens_ -= request.weight * slots_[slot].PromptRows();
    taken.push_back(request);
    FreeSlot(slot);
  }
  waiting_ = std::move(kept);
  return taken;
}

std::vector<Unit::InProgress> Unit::TakeRunning(int64_t rows) {
  std::vector<InProgress> taken;
  while (youngest_ >= 0 && slots_[youngest_].request.weight <= rows) {
    const int slot = youngest_;
    TakeOut(slot);
    const Sequence& sequence = slots_[slot];
    rows -= sequence.request.weight;
    taken.push_back({sequence.request, sequence.generated, sequence.first_token});
    FreeSlot(slot);
  }
  return taken;
}

Unit::Contents Unit::TakeAll() {
  Contents all;
  all.running = TakeRunning(std::numeric_limits<int64_t>::max());
  for (std::deque<int>* const slots : {&prompts_, &waiting_}) {
    for (const int slot : *slots) {
      const Sequence& sequence = slots_[slot];
      all.waiting.push_back({sequence.request, sequence.generated, sequence.first_token});
      FreeSlot(slot);
    }
    slots->clear();
  }
  waiting_requests_ = waiting_tokens_ = 0;
  prompt_requests_ = prompt_tokens_left_ = prompt_keys_ = tokens_left_ = 0;
  return all;
}

int Unit::NewSlotOf(const InProgress& moved) {
  const int slot = NewSlot();
  Sequence& sequence = slots_[slot];
  sequence.request = moved.request;
  sequence.generated = moved.generated;
  sequence.first_token = moved.first_token;
  return slot;
}

void Unit::Adopt(const InProgress& moved, double now) {
  const int64_t keys = moved.request.weight * (int64_t{moved.request.input} + moved.generated);
  if (running_keys_ + prompt_keys_ + running_rows_ + keys > shape_.kv_tokens) {
    counters_.preempted += moved.request.weight;
    AdoptWaiting(moved, now);
    return;
  }
  if (IsEmpty()) now_ = std::max(now_, now);
  tokens_left_ += moved.request.weight * int64_t{moved.request.output - moved.generated};
  PutIn(NewSlotOf(moved));
}

void Unit::AdoptWaiting(const InProgress& moved, double now) {
  if (moved.request.input + moved.request.output > shape_.kv_tokens) {
    listener_->OnRefused(moved.request, now);
    return;
  }
  if (IsEmpty()) now_ = std::max(now_, now);
  const int slot = NewSlotOf(moved);
  waiting_.push_front(slot);
  waiting_requests_ += moved.request.weight;
  waiting_tokens_ += moved.request.weight * slots_[slot].PromptRows();
}

Unit::Load Unit::Now() const {
  Load load;
  load.running = running_rows_;
  load.waiting = waiting_requests_ + prompt_requests_;
  if (!waiting_.empty() && Fitting(waiting_.front()) == 0) load.queued = waiting_requests_;
  load.waiting_tokens = waiting_tokens_ + prompt_tokens_left_;
  load.kv_tokens = running_keys_ + prompt_keys_;
  load.running_kv_tokens = running_keys_;
  load.oldest_arrival = now_;
  if (!waiting_.empty()) load.oldest_arrival = slots_[waiting_.front()].request.arrival;
  if (!prompts_.empty()) {
    load.oldest_arrival = std::min(load.oldest_arrival, slots_[prompts_.front()].request.arrival);
  }
  return load;
}

}  // namespace janus::controllers
