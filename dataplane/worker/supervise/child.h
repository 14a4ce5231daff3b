#pragma once

#include <sys/types.h>

#include <string>

#include "common/fd.h"
#include "common/status.h"
#include "dataplane/worker/supervise/child_command.h"

namespace janus::dataplane {

// How a process ended.
struct Ending {
  int code = 0;    // exit code, if no signal ended it
  int signal = 0;  // 0: none
  bool is_success() const { return code == 0 && signal == 0; }
};
std::string ToString(const Ending& ending);  // "exit code 3", "signal 9 (Killed)"

// The process of one instance. It dies with the thread that started it. It has a process group of
// its own, so that a terminal's Ctrl-C reaches it only through the supervisor. It inherits stdout,
// stderr and blocked signals; a stop signal waits until the program is ready to read it. Confined
// to one thread at a time.
class Child {
 public:
  // `program`: path of the executable. A program that cannot be executed ends with code 127.
  // ResourceExhausted: no process, or no descriptor for it.
  static Result<Child> Start(const std::string& program, const ChildCommand& command);
  Child(Child&&) = default;
  Child& operator=(Child&&) = delete;
  // Kills and reaps it, unless Reap was called.
  ~Child();

  // For poll: readable when it has ended.
  int fd() const { return pid_fd_.get(); }
  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  // Waits for its end. At most once.
  Ending Reap();

 private:
  Child(pid_t pid, Fd pid_fd) : pid_(pid), pid_fd_(std::move(pid_fd)) {}
  pid_t pid_;
  Fd pid_fd_;  // none: it was reaped
};

}  // namespace janus::dataplane
