#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "common/clock.h"
#include "common/fd.h"
#include "common/mutex.h"

namespace janus::control {

// Ends socket operations at their deadline. The HTTP library bounds only single reads, so a server
// that sends a byte now and then could hold a call forever. At the deadline this shuts the socket
// down in both directions, and its reader or writer sees the end. Thread-safe.
class Deadlines {
 public:
  using Id = uint64_t;

  // Duplicates the descriptor, so that the owner may close the socket at any time.
  // `deadline` may lie in the past.
  Id Add(int socket, MonotonicTime deadline);
  void Move(Id id, MonotonicTime deadline);
  // True if Cut has shut the socket down.
  bool Remove(Id id);

  // Shuts down every overdue socket.
  void Cut(MonotonicTime now);
  // Time of the next Cut; nothing: no deadline is pending.
  std::optional<MonotonicTime> Next() const;
  // Blocks until `until`, or until Next() may have become earlier.
  void Wait(MonotonicTime until);
  // Ends a running Wait.
  void Wake();

 private:
  struct Entry {
    Fd socket;
    MonotonicTime deadline;
    bool is_cut = false;
  };

  mutable Mutex mu_;
  CondVar changed_;
  std::map<Id, Entry> entries_ JANUS_GUARDED_BY(mu_);
  Id next_id_ JANUS_GUARDED_BY(mu_) = 1;
  bool is_woken_ JANUS_GUARDED_BY(mu_) = false;
};

}  // namespace janus::control
