#pragma once

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace janus::cli {

// SIGINT, SIGTERM and SIGHUP as something to poll. Made first in main, before any thread starts, so
// that all threads inherit the blocked signals. SIGPIPE is ignored: a reader that has gone is an
// error of the write. Confined to the main thread.
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

  // Whether one came since the last call or before.
  bool Came() {
    signalfd_siginfo info;
    while (read(fd_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) came_ = true;
    return came_;
  }

 private:
  int fd_ = -1;
  bool came_ = false;
};

}  // namespace janus::cli
