#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "common/clock.h"
#include "common/fd.h"
#include "common/mutex.h"

namespace janus::control {

// Ends what a socket waits for when its time is up, whatever the HTTP library is doing with it: the
// library bounds single reads, so a server that sends a byte now and then would hold a call for
// ever. Shuts the socket down in both directions; a reader or writer of it then sees its end.
// Thread-safe.
class Deadlines {
 public:
  using Id = uint64_t;

  // Keeps its own descriptor of the socket, which the owner may thus close at any time.
  // `deadline` may lie in the past.
  Id Add(int socket, MonotonicTime deadline);
  void Move(Id id, MonotonicTime deadline);
  // Whether the socket was shut down here.
  bool Remove(Id id);

  // Shuts down what is due.
  void Cut(MonotonicTime now);
  // When to call Cut again; nothing: no deadline is pending.
  std::optional<MonotonicTime> Next() const;
  // Returns when Next() may have become sooner, at the latest at `until`.
  void Wait(MonotonicTime until);
  // Makes a Wait return.
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
