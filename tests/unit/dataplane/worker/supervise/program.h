#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/fd.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {

// Waits until it holds, at most so long that only a defect exceeds it.
inline bool Await(const std::function<bool()>& holds) {
  const MonotonicTime end = MonotonicClock::now() + Scaled(std::chrono::seconds(60));
  while (!holds()) {
    if (MonotonicClock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// The instances that the main thread of a supervisor runs: their processes by index. A zombie has
// no arguments, and is left out.
inline std::map<int, pid_t> ChildrenOf(pid_t supervisor) {
  const std::string pid = std::to_string(supervisor);
  const std::string flag = "--instance=";
  std::map<int, pid_t> out;
  std::ifstream list("/proc/" + pid + "/task/" + pid + "/children");
  for (pid_t child = 0; list >> child;) {
    std::ifstream in("/proc/" + std::to_string(child) + "/cmdline");
    std::string line;  // of a process that ends meanwhile: what could be read
    std::getline(in, line);
    const size_t at = line.find(flag);
    if (at != std::string::npos) out[std::atoi(line.c_str() + at + flag.size())] = child;
  }
  return out;
}

// A process of a program; killed with this object, and with the thread that constructs it.
class Program {
 public:
  explicit Program(std::vector<std::string> arguments) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    output_ = Fd(ends[0]);
    const Fd write_end(ends[1]);
    std::vector<char*> pointers;
    for (std::string& one : arguments) pointers.push_back(one.data());
    pointers.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(write_end.get(), STDOUT_FILENO);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  ~Program() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    Wait();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  // The next line that it, or a process of its own, writes to stdout; empty: all have ended.
  std::string Line() {
    std::string line;
    char one = 0;
    while (read(output_.get(), &one, 1) == 1 && one != '\n') line += one;
    return line;
  }
  // Its exit code, or the negative number of the signal that ended it.
  int Wait() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  Fd output_;
};

}  // namespace janus::dataplane
