#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <optional>

namespace janus {

// Makes it possible to wait for SIGINT, SIGTERM and SIGHUP. Construct it first in main, before any
// thread starts, so that all threads inherit the blocked signals. They stay blocked to the end of
// the process, so a further signal does not change how it ends. SIGPIPE is ignored: if a reader has
// gone, the write returns an error. Confined to one thread.
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

  // Readable once a signal has arrived.
  int fd() const { return fd_; }

  // Returns when a signal arrives, from outside or by Request.
  void Wait() {
    pollfd readable{fd_, POLLIN, 0};
    while (!Came()) poll(&readable, 1, -1);
  }

  // Asks this process to end. Thread-safe.
  static void Request() { kill(getpid(), SIGTERM); }

  // The number of the next pending signal, if any.
  std::optional<int> Next() {
    signalfd_siginfo info;
    if (read(fd_, &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) return std::nullopt;
    came_ = true;
    return static_cast<int>(info.ssi_signo);
  }

  // Whether a signal has arrived since the last call.
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
