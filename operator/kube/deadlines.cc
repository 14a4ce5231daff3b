#include "operator/kube/deadlines.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace janus::control {

Deadlines::Id Deadlines::Add(int socket, MonotonicTime deadline) {
  Entry entry;
  entry.socket = Fd(fcntl(socket, F_DUPFD_CLOEXEC, 0));
  entry.deadline = deadline;
  const MutexLock lock(mu_);
  const Id id = next_id_++;
  entries_.emplace(id, std::move(entry));
  is_woken_ = true;
  changed_.NotifyAll();
  return id;
}

void Deadlines::Move(Id id, MonotonicTime deadline) {
  const MutexLock lock(mu_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  const bool is_sooner = deadline < found->second.deadline;
  found->second.deadline = deadline;
  if (!is_sooner) return;
  is_woken_ = true;
  changed_.NotifyAll();
}

bool Deadlines::Remove(Id id) {
  const MutexLock lock(mu_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return false;
  const bool was_cut = found->second.is_cut;
  entries_.erase(found);
  return was_cut;
}

void Deadlines::Cut(MonotonicTime now) {
  const MutexLock lock(mu_);
  for (auto& [id, entry] : entries_) {
    if (entry.is_cut || entry.deadline > now) continue;
    shutdown(entry.socket.get(), SHUT_RDWR);
    entry.is_cut = true;
  }
}

std::optional<MonotonicTime> Deadlines::Next() const {
  const MutexLock lock(mu_);
  std::optional<MonotonicTime> next;
  for (const auto& [id, entry] : entries_) {
    if (!entry.is_cut) next = std::min(next.value_or(entry.deadline), entry.deadline);
  }
  return next;
}

void Deadlines::Wait(MonotonicTime until) {
  const MutexLock lock(mu_);
  while (!is_woken_) {
    if (!changed_.WaitUntil(mu_, until)) break;
  }
  is_woken_ = false;
}

void Deadlines::Wake() {
  const MutexLock lock(mu_);
  is_woken_ = true;
  changed_.NotifyAll();
}

}  // namespace janus::control
