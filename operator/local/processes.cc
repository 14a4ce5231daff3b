#include "operator/local/processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "common/fd.h"
#include "operator/local/exhausted.h"
#include "operator/local/log_file.h"

namespace janus::control {
namespace {

struct Pipe {
  Fd read;
  Fd write;
};

Result<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    return Exhausted("pipe", errno);
  }
  return Pipe{Fd(fds[0]), Fd(fds[1])};
}

// Runs between fork and exec. Other threads of ours may hold any lock, so it makes system calls
// only.
[[noreturn]] void Become(const char* program, char* const* argv, char* const* environment,
                         pid_t parent, int output, int failure) {
  setpgid(0, 0);
  // The kernel kills it when we die. We may have died before this line.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = open("/dev/null", O_RDONLY);
  if (null >= 0) dup2(null, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  // Some library may hold files without close-on-exec; a worker must not inherit a port.
  close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC);
  execve(program, argv, environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t told = write(failure, &error, sizeof(error));
  _exit(127);
}

// Our environment without the names in `added`, plus `added`.
std::vector<char*> WithOurs(const std::vector<std::string>& added) {
  std::vector<char*> out;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view ours(*one);
    const std::string_view name = ours.substr(0, ours.find('=') + 1);
    const bool is_set = std::any_of(added.begin(), added.end(), [&](const std::string& other) {
      return other.starts_with(name);
    });
    if (!is_set) out.push_back(*one);
  }
  for (const std::string& one : added) out.push_back(const_cast<char*>(one.c_str()));
  out.push_back(nullptr);
  return out;
}

Status ExecFailed(const std::string& program, int error) {
  const std::string failed = program + ": cannot be started";
  const std::string message = failed + ": " + std::strerror(error);
  if (error == ENOENT) return NotFound(message);
  if (error == EACCES) return PermissionDenied(message);
  return Exhausted(failed, error);
}

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

// If SIGCHLD is ignored, perhaps inherited from our parent, the kernel reaps children itself and
// exit statuses are lost.
void TakeExitStatuses() {
  struct sigaction action {};
  if (sigaction(SIGCHLD, nullptr, &action) != 0) return;
  const bool lost =
      (action.sa_flags & SA_NOCLDWAIT) != 0 ||
      ((action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN);  // NOLINT
  if (!lost) return;
  action.sa_flags &= ~SA_NOCLDWAIT;
  if ((action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN) {  // NOLINT
    action.sa_handler = SIG_DFL;
  }
  sigaction(SIGCHLD, &action, nullptr);
}

std::string DescribeExit(const siginfo_t& info) {
  if (info.si_pid == 0) return "ended; another part of this process took its exit status";
  if (info.si_code == CLD_EXITED && info.si_status == 0) {
    return "ended by itself or was stopped (SIGTERM)";
  }
  if (info.si_code == CLD_EXITED) return "exited with status " + std::to_string(info.si_status);
  std::string text = "was ended by " + SignalName(info.si_status);
  if (info.si_status == SIGKILL) text += " (by hand, or by the kernel when memory runs out)";
  return text;
}

}  // namespace

struct Processes::Child {
  std::string name;
  pid_t pid = -1;
  Fd pid_fd;
  Fd output;
  LogFile log;
  LastWords words;
  bool ready_posted = false;
  bool exited = false;
};

Processes::Processes(Options options) : options_(std::move(options)) {}

Result<std::unique_ptr<Processes>> Processes::Create(Options options) {
  TakeExitStatuses();
  std::unique_ptr<Processes> out(new Processes(std::move(options)));
  out->event_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  out->wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (out->event_fd_ < 0 || out->wake_fd_ < 0) {
    return Exhausted("eventfd", errno);
  }
  out->reader_ =
      std::jthread([self = out.get()](const std::stop_token& stop) { self->ReadOutputs(stop); });
  return out;
}

Processes::~Processes() {
  if (reader_.joinable()) {
    Stop(Seconds(0));
    reader_.request_stop();
    Wake();
    reader_.join();
  }
  if (event_fd_ >= 0) close(event_fd_);
  if (wake_fd_ >= 0) close(wake_fd_);
}

Status Processes::Start(const ProcessSpec& spec) {
  JANUS_ASSIGN_OR_RETURN(LogFile log, LogFile::Create(LogPath(spec.name), options_.max_log_bytes));
  JANUS_ASSIGN_OR_RETURN(Pipe output, MakePipe());
  JANUS_ASSIGN_OR_RETURN(Pipe failure, MakePipe());
  std::vector<char*> argv;
  argv.push_back(const_cast<char*>(spec.program.c_str()));
  for (const std::string& argument : spec.arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  const std::vector<char*> environment = WithOurs(spec.environment);

  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return Exhausted(spec.program + ": fork", errno);
  if (pid == 0) {
    Become(spec.program.c_str(), argv.data(), environment.data(), parent, output.write.get(),
           failure.write.get());
  }
  // Both sides set it, so that it holds whichever runs first.
  setpgid(pid, pid);
  output.write.Reset();
  failure.write.Reset();
  int error = 0;
  ssize_t got;
  do {
    got = read(failure.read.get(), &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  Fd pid_fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (got > 0 || pid_fd.get() < 0) {
    if (got <= 0) error = errno;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return ExecFailed(spec.program, error);
  }
  fcntl(output.read.get(), F_SETFL, O_NONBLOCK);
  {
    MutexLock lock(mu_);
    children_.push_back(
        std::unique_ptr<Child>(new Child{spec.name, pid, std::move(pid_fd), std::move(output.read),
                                         std::move(log), LastWords(), false, false}));
  }
  Wake();
  return OkStatus();
}

void Processes::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
}

// Only this thread uses a child's output, log and last words, and reaps it.
void Processes::ReadOutputs(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<Child*> children;
    std::vector<pollfd> fds = {{wake_fd_, POLLIN, 0}};
    {
      MutexLock lock(mu_);
      std::erase_if(children_, [](const auto& child) { return child->exited; });
      for (const auto& child : children_) {
        children.push_back(child.get());
        fds.push_back({child->output.get(), POLLIN, 0});
        fds.push_back({child->pid_fd.get(), POLLIN, 0});
      }
    }
    if (poll(fds.data(), fds.size(), -1) < 0) continue;
    if (fds[0].revents != 0) {
      uint64_t ignored;
      [[maybe_unused]] const ssize_t drained = read(wake_fd_, &ignored, sizeof(ignored));
    }
    for (size_t i = 0; i < children.size(); ++i) {
      Child& child = *children[i];
      if (fds[1 + 2 * i].revents != 0 && !ReadSome(child)) child.output.Reset();
      if (fds[2 + 2 * i].revents != 0) Reap(child);
    }
  }
}

// False at the end of the output. It reads once, so that a child that writes all the time does not
// block the others.
bool Processes::ReadSome(Child& child) {
  char buffer[16384];
  const ssize_t got = read(child.output.get(), buffer, sizeof(buffer));
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  const std::string_view bytes(buffer, static_cast<size_t>(got));
  child.log.Append(bytes);
  child.words.Append(bytes);
  if (!child.ready_posted && !child.words.ready().empty()) {
    child.ready_posted = true;
    MutexLock lock(mu_);
    Post({ProcessEvent::Kind::kReady, child.name, child.words.ready()});
  }
  return true;
}

void Processes::Reap(Child& child) {
  // The pipe still holds its last output, at most 64 KiB. The limit keeps a grandchild with an open
  // pipe from blocking us.
  for (int i = 0; i < 8 && child.output.get() >= 0; ++i) {
    pollfd more = {child.output.get(), POLLIN, 0};
    if (poll(&more, 1, 0) <= 0 || !ReadSome(child)) break;
  }
  // Kill the rest of its process group before it is reaped: while it is a zombie, no other process
  // can get its number.
  siginfo_t info{};
  const auto id = static_cast<id_t>(child.pid);
  int waited;
  do {
    waited = waitid(P_PID, id, &info, WEXITED | WNOWAIT);
  } while (waited != 0 && errno == EINTR);
  if (waited == 0) {
    kill(-child.pid, SIGKILL);
    waitid(P_PID, id, &info, WEXITED);
  }
  // Otherwise another part of our process reaped it. It is gone, and its number may be reused.
  std::string text = child.name + " " + DescribeExit(info);
  const std::string words = child.words.Line();
  if (!words.empty()) text += "; its last words: " + words;
  text += "; log: " + child.log.path();
  child.output.Reset();

  MutexLock lock(mu_);
  child.exited = true;
  ProcessEvent event{ProcessEvent::Kind::kExited, child.name, std::move(text)};
  event.expected = stopping_;
  // The exit status is unknown if it was reaped elsewhere: not a success.
  if (info.si_pid == 0) {
    event.exit_code = -1;
  } else {
    (info.si_code == CLD_EXITED ? event.exit_code : event.signal) = info.si_status;
  }
  Post(std::move(event));
  gone_.NotifyAll();
}

void Processes::Post(ProcessEvent event) {
  events_.push_back(std::move(event));
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_fd_, &one, sizeof(one));
}

std::optional<ProcessEvent> Processes::NextEvent() {
  MutexLock lock(mu_);
  if (events_.empty()) {
    uint64_t ignored;
    [[maybe_unused]] const ssize_t drained = read(event_fd_, &ignored, sizeof(ignored));
    return std::nullopt;
  }
  ProcessEvent event = std::move(events_.front());
  events_.erase(events_.begin());
  return event;
}

void Processes::SignalOne(const Child& child, int signal) {
  // By pidfd: the number may belong to another process by now.
  if (!child.exited) syscall(SYS_pidfd_send_signal, child.pid_fd.get(), signal, nullptr, 0);
}

void Processes::Signal(const std::string& name, int signal) {
  MutexLock lock(mu_);
  for (const auto& child : children_) {
    if (child->name == name) SignalOne(*child, signal);
  }
}

void Processes::SignalAll(int signal) {
  MutexLock lock(mu_);
  for (auto child = children_.rbegin(); child != children_.rend(); ++child) {
    SignalOne(**child, signal);
  }
}

bool Processes::AwaitNone(MonotonicTime deadline) {
  MutexLock lock(mu_);
  while (true) {
    const bool none = std::all_of(children_.begin(), children_.end(),
                                  [](const auto& child) { return child->exited; });
    if (none) return true;
    if (!gone_.WaitUntil(mu_, deadline) && MonotonicClock::now() >= deadline) return false;
  }
}

void Processes::Stop(Seconds grace) {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  if (grace > Seconds(0)) {
    SignalAll(SIGTERM);
    const auto wait = std::chrono::duration_cast<MonotonicClock::duration>(grace);
    if (AwaitNone(MonotonicClock::now() + wait)) return;
  }
  SignalAll(SIGKILL);
  // A process in uninterruptible sleep (such as a hung disk) may outlast this. The kernel ends it
  // later, so we do not wait.
  AwaitNone(MonotonicClock::now() + std::chrono::seconds(10));
}

int Processes::running() const {
  MutexLock lock(mu_);
  return static_cast<int>(std::count_if(children_.begin(), children_.end(),
                                        [](const auto& child) { return !child->exited; }));
}

Result<std::string> FindSibling(const std::string& program) {
  char self[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof(self));
  if (length <= 0) return NotFound(std::string("/proc/self/exe: ") + std::strerror(errno));
  const std::string own(self, static_cast<size_t>(length));
  const std::string path = own.substr(0, own.rfind('/') + 1) + program;
  if (access(path.c_str(), X_OK) != 0) {
    return NotFound(path + ": " + std::strerror(errno) + "; " + program + " must lie beside " +
                    own + "; build or install it there");
  }
  return path;
}

}  // namespace janus::control
