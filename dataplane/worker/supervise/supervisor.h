#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/log.h"
#include "common/mutex.h"
#include "common/stop_signals.h"
#include "dataplane/worker/supervise/child.h"
#include "dataplane/worker/supervise/child_command.h"
#include "dataplane/worker/supervise/restarts.h"
#include "rpc/page_server.h"

namespace janus::dataplane {

struct SupervisorLimits {
  std::chrono::milliseconds look_every{100};        // for an instance that is not ready yet
  std::chrono::milliseconds ask_every{5'000};       // /live of instances that were ready
  std::chrono::milliseconds answer_within{3'000};   // for an answer to either question
  std::chrono::milliseconds start_within{600'000};  // from the start of a process to /ready
  // For the pages of this process, whose readers have short limits of their own.
  std::chrono::milliseconds gather_within{900};
  std::chrono::milliseconds end_within{5'000};  // from SIGTERM to SIGKILL when it gives up
};

// The instances of one pod: a process each, started again when it ends or hangs. An instance that
// ends leaves the others alone; the control loop moves the service into an epoch without the dead
// process, and then into one with the new process.
//
// It ends after a stop signal, or when instances end too often (restarts.h).
//
// Confined to the thread that constructs it and calls Run: instances die with that thread.
class Supervisor {
 public:
  struct Options {
    std::vector<ChildCommand> commands;      // by index
    std::string program = "/proc/self/exe";  // the executable of every instance
    std::string pages;                       // address of this process's pages; empty: none
    std::function<void()> on_ready;          // called once by another thread, when all are ready
    SupervisorLimits limits = {};
  };
  Supervisor(Options options, StopSignals& stop, Logger log);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Starts the instances and returns when all have ended. Stop signals are passed on to them.
  // Returns the exit code: 0 if they were told to end and all ended with 0, otherwise 1.
  int Run();

 private:
  struct Instance {
    std::optional<Child> child;  // none: it has ended, or has not started
    uint64_t process = 0;        // counts the processes that were this instance
    MonotonicTime started;       // of this process
    bool is_ready = false;
    Ending ended;  // of its last process
  };
  // An instance to be asked, as it was at that time.
  struct Asked {
    size_t index;
    uint64_t process;
  };

  PageServer::Pages Pages();
  Page AllAnswer(const std::string& path) const;
  std::string Metrics() const;
  Status Start(size_t index) JANUS_REQUIRES(mu_);
  // Waits for a signal, an end, or a deadline.
  void Wait() JANUS_EXCLUDES(mu_);
  void PassSignalsOn() JANUS_REQUIRES(mu_);
  void ReapEnded() JANUS_REQUIRES(mu_);
  void OnEnd(size_t index) JANUS_REQUIRES(mu_);
  void GiveUp() JANUS_REQUIRES(mu_);
  void SignalAll(int signal) JANUS_REQUIRES(mu_);
  bool HaveAllEnded() const JANUS_REQUIRES(mu_);
  bool IsEnding() const JANUS_REQUIRES(mu_) { return is_told_to_end_ || has_given_up_; }

  // In a thread of its own: asks the instances.
  void Watch(const std::stop_token& stop) JANUS_EXCLUDES(mu_);
  void LookForReady() JANUS_EXCLUDES(mu_);
  void LookForHung() JANUS_EXCLUDES(mu_);
  std::vector<Asked> Running(bool ready) const JANUS_EXCLUDES(mu_);
  std::vector<bool> Ask(const std::vector<Asked>& asked, const char* page) const;
  bool IsStill(const Asked& asked) const JANUS_REQUIRES(mu_);

  const Options options_;
  StopSignals& stop_;
  const Logger log_;
  mutable Mutex mu_;
  std::vector<Instance> instances_ JANUS_GUARDED_BY(mu_);
  Restarts restarts_ JANUS_GUARDED_BY(mu_);
  Silences silences_ JANUS_GUARDED_BY(mu_);
  bool is_told_to_end_ JANUS_GUARDED_BY(mu_) = false;
  bool has_given_up_ JANUS_GUARDED_BY(mu_) = false;
  bool was_ready_ JANUS_GUARDED_BY(mu_) = false;
  std::optional<MonotonicTime> kill_at_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::dataplane
