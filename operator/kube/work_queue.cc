#include "operator/kube/work_queue.h"

#include <algorithm>
#include <cmath>

#include "common/check.h"

namespace janus::control {

WorkQueue::WorkQueue(WorkQueueOptions options) : options_(options) {
  JANUS_CHECK(options.capacity >= 1, options.capacity);
}

Status WorkQueue::Reserve(const ObjectKey& key) {
  if (keys_.size() < options_.capacity || keys_.contains(key)) return OkStatus();
  return ResourceExhausted("the work queue holds " + std::to_string(keys_.size()) +
                           " keys; no room for " + key.ToString());
}

void WorkQueue::MakeReady(const ObjectKey& key, State& state, MonotonicTime since) {
  if (state.later) later_.erase({*state.later, key});
  state.later.reset();
  if (state.is_working) {
    state.is_again = true;  // (2)
  } else if (!state.is_ready) {
    state.is_ready = true;
    state.since = since;
    ready_.push_back(key);
    if (options_.metrics == nullptr) return;
    options_.metrics->adds.Add();
    options_.metrics->depth.Set(static_cast<double>(ready_.size()));
  }
}

void WorkQueue::MakeLater(const ObjectKey& key, State& state, MonotonicTime when) {
  if (state.is_ready || state.is_again) return;
  if (state.later && *state.later <= when) return;
  if (state.later) later_.erase({*state.later, key});
  state.later = when;
  later_.emplace(when, key);
}

// Removes a key without any state.
void WorkQueue::Settle(const ObjectKey& key) {
  const auto found = keys_.find(key);
  if (found != keys_.end() && found->second.IsIdle()) keys_.erase(found);
}

Status WorkQueue::Add(const ObjectKey& key, MonotonicTime now) {
  const MutexLock lock(mu_);
  JANUS_RETURN_IF_ERROR(Reserve(key));
  MakeReady(key, keys_[key], now);
  return OkStatus();
}

Status WorkQueue::AddAt(const ObjectKey& key, MonotonicTime when) {
  const MutexLock lock(mu_);
  JANUS_RETURN_IF_ERROR(Reserve(key));
  MakeLater(key, keys_[key], when);
  return OkStatus();
}

std::optional<ObjectKey> WorkQueue::TryTake(MonotonicTime now) {
  const MutexLock lock(mu_);
  while (!later_.empty() && later_.begin()->first <= now) {
    const auto [when, due] = *later_.begin();
    MakeReady(due, keys_[due], when);
  }
  if (ready_.empty()) return std::nullopt;
  ObjectKey key = std::move(ready_.front());
  ready_.pop_front();
  State& state = keys_[key];
  state.is_ready = false;
  state.is_working = true;
  if (options_.metrics != nullptr) {
    options_.metrics->depth.Set(static_cast<double>(ready_.size()));
    options_.metrics->queue_duration.Observe(Seconds(now - state.since).count());
  }
  state.since = now;
  return key;
}

std::optional<MonotonicTime> WorkQueue::NextDeadline() const {
  const MutexLock lock(mu_);
  if (later_.empty()) return std::nullopt;
  return later_.begin()->first;
}

void WorkQueue::StopWorking(State& state, MonotonicTime now) {
  state.is_working = false;
  if (options_.metrics == nullptr) return;
  options_.metrics->work_duration.Observe(Seconds(now - state.since).count());
}

void WorkQueue::Measure(MonotonicTime now) const {
  if (options_.metrics == nullptr) return;
  Seconds sum{0};
  Seconds longest{0};
  const MutexLock lock(mu_);
  for (const auto& [key, state] : keys_) {
    if (!state.is_working) continue;
    sum += now - state.since;
    longest = std::max<Seconds>(longest, now - state.since);
  }
  options_.metrics->unfinished_work.Set(sum.count());
  options_.metrics->longest_running.Set(longest.count());
}

void WorkQueue::Done(const ObjectKey& key, MonotonicTime now) {
  const MutexLock lock(mu_);
  const auto found = keys_.find(key);
  JANUS_CHECK(found != keys_.end() && found->second.is_working, key.ToString(), "was not taken");
  State& state = found->second;
  StopWorking(state, now);
  if (state.is_again) {
    state.is_again = false;
    MakeReady(key, state, now);
  }
  Settle(key);
}

void WorkQueue::Retry(const ObjectKey& key, MonotonicTime now) {
  const MutexLock lock(mu_);
  const auto found = keys_.find(key);
  JANUS_CHECK(found != keys_.end() && found->second.is_working, key.ToString(), "was not taken");
  State& state = found->second;
  const Seconds pause = std::min(options_.longest_backoff,
                                 options_.first_backoff * std::exp2(std::min(state.failures, 60)));
  ++state.failures;
  StopWorking(state, now);
  if (options_.metrics != nullptr) options_.metrics->retries.Add();
  if (state.is_again) {
    // The object changed meanwhile: handle it at once, without the pause of a retry.
    state.is_again = false;
    MakeReady(key, state, now);
  } else {
    MakeLater(key, state, now + std::chrono::duration_cast<MonotonicTime::duration>(pause));
  }
}

void WorkQueue::Forget(const ObjectKey& key) {
  const MutexLock lock(mu_);
  const auto found = keys_.find(key);
  if (found == keys_.end()) return;
  found->second.failures = 0;
  Settle(key);
}

size_t WorkQueue::depth() const {
  const MutexLock lock(mu_);
  return ready_.size() + later_.size();
}

int WorkQueue::failures(const ObjectKey& key) const {
  const MutexLock lock(mu_);
  const auto found = keys_.find(key);
  return found == keys_.end() ? 0 : found->second.failures;
}

}  // namespace janus::control
