#include "operator/manager/key_queue.h"

#include <utility>

namespace janus::control {

void KeyQueue::Note(const Status& added) {
  has_overflowed_ = has_overflowed_ || !added.ok();
  changed_.NotifyOne();
}

void KeyQueue::Add(const ObjectKey& key) {
  const MutexLock lock(mu_);
  Note(queue_.Add(key, MonotonicClock::now()));
}

void KeyQueue::AddAt(const ObjectKey& key, MonotonicTime when) {
  const MutexLock lock(mu_);
  Note(queue_.AddAt(key, when));
}

bool KeyQueue::TakeOverflow() {
  const MutexLock lock(mu_);
  return std::exchange(has_overflowed_, false);
}

std::optional<ObjectKey> KeyQueue::Take(const std::stop_token& stop) {
  // Its destructor waits for a running callback, which may wait for the lock. So it is destroyed
  // after the lock is released.
  const std::stop_callback wake(stop, [this] {
    const MutexLock lock(mu_);
    changed_.NotifyAll();
  });
  const MutexLock lock(mu_);
  while (!stop.stop_requested()) {
    if (std::optional<ObjectKey> key = queue_.TryTake(MonotonicClock::now())) {
      // One call may have made several keys due but woken only one worker.
      changed_.NotifyOne();
      return key;
    }
    if (const std::optional<MonotonicTime> next = queue_.NextDeadline()) {
      changed_.WaitUntil(mu_, *next);
    } else {
      changed_.Wait(mu_);
    }
  }
  return std::nullopt;
}

void KeyQueue::Done(const ObjectKey& key) {
  const MutexLock lock(mu_);
  queue_.Forget(key);
  queue_.Done(key, MonotonicClock::now());
  changed_.NotifyOne();
}

void KeyQueue::PutDown(const ObjectKey& key) {
  const MutexLock lock(mu_);
  queue_.Done(key, MonotonicClock::now());
  changed_.NotifyOne();
}

void KeyQueue::Retry(const ObjectKey& key) {
  const MutexLock lock(mu_);
  queue_.Retry(key, MonotonicClock::now());
  changed_.NotifyOne();
}

}  // namespace janus::control
