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
  std::string name;                    // "attention-0": distinct; names the log file
  std::string program;                 // a path
  std::vector<std::string> arguments;  // without the program's name
  // "NAME=value", beside what this process has in its environment, or in its place.
  std::vector<std::string> environment = {};
};

// Something a process did. Each gives at most one of either kind.
struct ProcessEvent {
  enum class Kind { kReady, kExited };
  Kind kind = Kind::kReady;
  std::string name;
  std::string text;       // kReady: the address; kExited: why, with last words and log
  int exit_code = 0;      // kExited: its status, where `signal` is 0
  int signal = 0;         // kExited: that ended it; 0: none did
  bool expected = false;  // kExited: after Stop
  bool clean() const { return exit_code == 0 && signal == 0; }
};

// The processes of one run: each in a process group of its own (Ctrl-C reaches us alone), killed by
// the kernel when we die, its output read into <log_dir>/<name>.log. A process says that it serves
// by the line `ready <address>` (or `<program> ready <address>`) on its output.
//
// Start, NextEvent, Stop and the destructor belong to the thread that called Create, and that
// thread must live as long as the processes: the kernel's parent-death signal follows the thread
// that started a process, not the whole of ours. A thread inside reads the outputs. Create undoes
// an ignored SIGCHLD for the whole of our process: how a child ended would be lost.
class Processes {
 public:
  struct Options {
    std::string log_dir;
    int64_t max_log_bytes = 16 << 20;  // per file; two files per process at most
  };

  static Result<std::unique_ptr<Processes>> Create(Options options);
  // SIGKILL to whatever still runs; returns when all are gone.
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // Returns when the program runs. A name can be used again once its exit was told. NotFound,
  // PermissionDenied: it cannot be executed (with the path); ResourceExhausted: no more processes
  // or files.
  Status Start(const ProcessSpec& spec);

  // Readable when NextEvent has something; for poll().
  int event_fd() const { return event_fd_; }
  std::optional<ProcessEvent> NextEvent();

  // To the process of that name, if it runs.
  void Signal(const std::string& name, int signal);

  // SIGTERM to every process, latest first; after `grace` SIGKILL to the rest and their groups.
  // Returns when all are gone. Their exits are events marked expected.
  void Stop(Seconds grace);

  // How many run.
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
  int wake_fd_ = -1;  // tells the reading thread of a new child or the end
  mutable Mutex mu_;
  CondVar gone_;
  std::vector<std::unique_ptr<Child>> children_ JANUS_GUARDED_BY(mu_);
  std::vector<ProcessEvent> events_ JANUS_GUARDED_BY(mu_);  // two per start at most
  bool stopping_ JANUS_GUARDED_BY(mu_) = false;
  std::jthread reader_;
};

// The path of a program that lies beside our own executable.
// NotFound: it is not there; names the path and what to do.
Result<std::string> FindSibling(const std::string& program);

}  // namespace janus::control
