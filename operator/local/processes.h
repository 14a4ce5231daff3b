#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "common/mutex.h"
#include "common/status.h"

namespace janus::control {

struct ProcessSpec {
  std::string name;                    // "attention-0": unique; also the name of the log file
  std::string program;                 // a path
  std::vector<std::string> arguments;  // without argv[0]
  // "NAME=value": added to our environment, or overrides it.
  std::vector<std::string> environment = {};
};

// Something that happened to a process. Each process gives at most one event of each kind.
struct ProcessEvent {
  enum class Kind { kReady, kExited };
  Kind kind = Kind::kReady;
  std::string name;
  std::string text;       // kReady: the address; kExited: why, with last words and log
  int exit_code = 0;      // kExited: exit status if `signal` is 0
  int signal = 0;         // kExited: the signal that ended it; 0: none
  bool expected = false;  // kExited: after Stop
  bool clean() const { return exit_code == 0 && signal == 0; }
};

// The processes of one run. Each has a separate process group, so Ctrl-C reaches only us. The
// kernel kills them when we die. Their output goes to <log_dir>/<name>.log. A process reports that
// it serves by printing `ready <address>` (or `<program> ready <address>`).
//
// Call Start, NextEvent, Stop and the destructor on the thread that called Create. That thread must
// live as long as the processes: the kernel's parent-death signal depends on the starting thread,
// not on our process. An internal thread reads the outputs. Create resets an ignored SIGCHLD for
// our whole process; otherwise exit statuses would be lost.
class Processes {
 public:
  struct Options {
    std::string log_dir;
    int64_t max_log_bytes = 16 << 20;  // per file; two files per process at most
  };

  static Result<std::unique_ptr<Processes>> Create(Options options);
  // Sends SIGKILL to every running process; returns when all have ended.
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // Returns once the program runs. A name can be reused after its exit event. NotFound,
  // PermissionDenied: the file cannot be executed (names the path); ResourceExhausted: too many
  // processes or files.
  Status Start(const ProcessSpec& spec);

  // Readable when NextEvent has an event; for poll().
  int event_fd() const { return event_fd_; }
  std::optional<ProcessEvent> NextEvent();

  // Sends to the process of that name, if it runs.
  void Signal(const std::string& name, int signal);

  // Sends SIGTERM to every process, latest first; after `grace`, SIGKILL to the rest and their
  // groups. Returns when all have ended. Their exit events have `expected` set.
  void Stop(Seconds grace);

  // Number of running processes.
  int running() const;
  std::string LogPath(const std::string& name) const {
    return options_.log_dir + "/" + name + ".log";
  }

 private:
  struct Child;
  explicit Processes(Options options);
  void ReadOutputs(const std::stop_token& stop);
  bool ReadSome(Child& child);
  void Reap(Child& child);
  void Post(ProcessEvent event) JANUS_REQUIRES(mu_);
  static void SignalOne(const Child& child, int signal);
  void SignalAll(int signal);
  bool AwaitNone(MonotonicTime deadline);
  void Wake();

  const Options options_;
  int event_fd_ = -1;
  int wake_fd_ = -1;  // wakes the reading thread for a new child or the end
  mutable Mutex mu_;
  CondVar gone_;
  std::vector<std::unique_ptr<Child>> children_ JANUS_GUARDED_BY(mu_);
  std::vector<ProcessEvent> events_ JANUS_GUARDED_BY(mu_);  // at most two per start
  bool stopping_ JANUS_GUARDED_BY(mu_) = false;
  std::jthread reader_;
};

// The path of a program in the folder of our executable. NotFound: not there; names the path and
// the remedy.
Result<std::string> FindSibling(const std::string& program);

}  // namespace janus::control
