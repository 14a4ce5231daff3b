#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <optional>

namespace janus {

// SIGINT, SIGTERM and SIGHUP as something to wait for. Made first in main, before any thread
// starts, so that all threads inherit the blocked signals. They stay blocked to the end of the
// process: one more of them while it ends changes nothing of how it ends. SIGPIPE is ignored: a
// reader that has gone is an error of the write. Confined to one thread.
class StopSignals {
 public:
  StopSignals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    signal(SIGPIPE, SIG_IGN);
    fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~StopSignals() { close(fd_); }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Readable once one came.
  int fd() const { return fd_; }

  // Returns when one has come, from outside or by Request.
  void Wait() {
    pollfd readable{fd_, POLLIN, 0};
    while (!Came()) poll(&readable, 1, -1);
  }

  // Asks this process to end. Thread-safe.
  static void Request() { kill(getpid(), SIGTERM); }

  // The next one's number, none while there is none.
  std::optional<int> Next() {
    signalfd_siginfo info;
    if (read(fd_, &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) return std::nullopt;
    came_ = true;
    return static_cast<int>(info.ssi_signo);
  }

  // Whether one came since the last call or before.
  bool Came() {
    while (Next()) {
    }
    return came_;
  }

 private:
  int fd_ = -1;
  bool came_ = false;
};

}  // namespace janus
