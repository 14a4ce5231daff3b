#include "dataplane/worker/supervise/child.h"

#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <vector>

namespace janus::dataplane {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// Runs between fork and exec. Other threads of ours may hold any lock, so it makes system calls
// only.
[[noreturn]] void Become(const char* program, char* const* arguments, char* const* environment,
                         pid_t parent) {
  setpgid(0, 0);
  // The kernel kills it when we die. We may have died before this line.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  // Some library may hold files without close-on-exec; an instance must not inherit a port.
  close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC);
  execve(program, arguments, environment);
  _exit(127);
}

Ending EndingOf(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) return {.signal = WTERMSIG(status)};
  return {.code = WEXITSTATUS(status)};
}

}  // namespace

std::string ToString(const Ending& ending) {
  if (ending.signal == 0) return "exit code " + std::to_string(ending.code);
  return "signal " + std::to_string(ending.signal) + " (" + strsignal(ending.signal) + ")";
}

Result<Child> Child::Start(const std::string& program, const ChildCommand& command) {
  const std::vector<char*> arguments = Pointers(command.arguments);
  const std::vector<char*> environment = Pointers(command.environment);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return ResourceExhausted("fork: " + std::string(std::strerror(errno)));
  if (pid == 0) Become(program.c_str(), arguments.data(), environment.data(), parent);
  Fd pid_fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pid_fd) {
    const std::string why = std::strerror(errno);
    kill(pid, SIGKILL);
    EndingOf(pid);
    return ResourceExhausted("pidfd_open: " + why);
  }
  return Child(pid, std::move(pid_fd));
}

Child::~Child() {
  if (!pid_fd_) return;
  Signal(SIGKILL);
  Reap();
}

void Child::Signal(int signal) const {
  syscall(SYS_pidfd_send_signal, pid_fd_.get(), signal, nullptr, 0);
}

Ending Child::Reap() {
  const Ending ending = EndingOf(pid_);
  pid_fd_.Reset();
  return ending;
}

}  // namespace janus::dataplane
