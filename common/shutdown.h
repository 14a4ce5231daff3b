#pragma once

#include <signal.h>
#include <unistd.h>

namespace janus {

// Turns SIGINT and SIGTERM into something a main thread waits for. Create it first in main, before
// any thread starts, so that all threads inherit the blocked signals. SIGPIPE is ignored: a peer
// that has gone is an error of the write.
class Shutdown {
 public:
  Shutdown() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    signal(SIGPIPE, SIG_IGN);
  }

  // Returns when the process is asked to end, from outside or by Request. One thread.
  void Wait() const {
    int signal_number = 0;
    sigwait(&set_, &signal_number);
  }

  // Asks the process to end. Thread-safe.
  static void Request() { kill(getpid(), SIGTERM); }

 private:
  sigset_t set_;
};

}  // namespace janus
