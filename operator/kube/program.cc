#include "operator/kube/program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "common/fd.h"

namespace janus::control {
namespace {

constexpr size_t kMostErrorBytes = 4096;

std::string ErrorText(int error) {
  char text[128];
  return strerror_r(error, text, sizeof text);
}

// Arguments or environment of a program: pointers into strings that live as long.
class Words {
 public:
  void Add(std::string word) { words_.push_back(std::move(word)); }
  // Valid until the next Add.
  char** Pointers() {
    pointers_.clear();
    for (std::string& word : words_) pointers_.push_back(word.data());
    pointers_.push_back(nullptr);
    return pointers_.data();
  }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

struct Pipe {
  Fd read;
  Fd write;
};

Result<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Unavailable("pipe: " + ErrorText(errno));
  Pipe out{Fd(ends[0]), Fd(ends[1])};
  fcntl(out.read.get(), F_SETFL, O_NONBLOCK);
  return out;
}

class SpawnActions {
 public:
  SpawnActions() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes_, 0);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes_, &none);
    sigset_t broken_pipe;
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes_, &broken_pipe);
  }
  ~SpawnActions() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  posix_spawn_file_actions_t* actions() { return &actions_; }
  posix_spawnattr_t* attributes() { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

Result<pid_t> Spawn(const Program& program, const Pipe& out, const Pipe& error) {
  SpawnActions spawn;
  posix_spawn_file_actions_addopen(spawn.actions(), 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(spawn.actions(), out.write.get(), 1);
  posix_spawn_file_actions_adddup2(spawn.actions(), error.write.get(), 2);
  Words args;
  args.Add(program.command);
  for (const std::string& arg : program.args) args.Add(arg);
  Words environment;  // the first of a name wins
  for (const auto& [name, value] : program.environment) environment.Add(name + "=" + value);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const bool replaced =
        std::any_of(program.environment.begin(), program.environment.end(),
                    [&](const auto& ours) { return text.starts_with(ours.first + "="); });
    if (!replaced) environment.Add(std::string(text));
  }
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, program.command.c_str(), spawn.actions(),
                                  spawn.attributes(), args.Pointers(), environment.Pointers());
  if (failed == ENOENT) return NotFound("there is no program '" + program.command + "'");
  if (failed != 0) {
    return FailedPrecondition("'" + program.command + "' cannot be run: " + ErrorText(failed));
  }
  return pid;
}

// Reads what is available; false at the end of the output.
bool Drain(int fd, std::string& into, size_t most) {
  char bytes[4096];
  for (;;) {
    const ssize_t got = read(fd, bytes, sizeof bytes);
    if (got > 0) {
      into.append(bytes, std::min(static_cast<size_t>(got), most - std::min(most, into.size())));
      continue;
    }
    return got < 0 && (errno == EAGAIN || errno == EINTR);
  }
}

int ExitCode(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Result<ProgramOutput> RunProgram(const Program& program, Seconds timeout,
                                 const std::stop_token& stop) {
  JANUS_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  JANUS_ASSIGN_OR_RETURN(Pipe error, MakePipe());
  JANUS_ASSIGN_OR_RETURN(const pid_t pid, Spawn(program, out, error));
  out.write.Reset();
  error.write.Reset();
  const Fd exited(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const MonotonicTime deadline =
      MonotonicClock::now() + std::chrono::duration_cast<MonotonicClock::duration>(timeout);
  ProgramOutput output;
  Status ended;
  {
    // Until we reap the process below, no other process can get its number.
    const std::stop_callback kill_it(stop, [&] { kill(-pid, SIGKILL); });
    bool is_out_open = true;
    bool is_error_open = true;
    bool is_killed = false;
    for (;;) {
      pollfd waits[] = {{exited.get(), POLLIN, 0},
                        {is_out_open ? out.read.get() : -1, POLLIN, 0},
                        {is_error_open ? error.read.get() : -1, POLLIN, 0}};
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - MonotonicClock::now());
      const int64_t most = is_killed ? -1 : std::clamp<int64_t>(left.count(), 0, 3'600'000);
      if (poll(waits, 3, static_cast<int>(most)) < 0 && errno != EINTR) break;
      if (is_out_open) is_out_open = Drain(out.read.get(), output.out, kMostProgramOutputBytes + 1);
      if (is_error_open) is_error_open = Drain(error.read.get(), output.error, kMostErrorBytes);
      if (waits[0].revents != 0) break;
      if (is_killed) continue;
      if (output.out.size() > kMostProgramOutputBytes) {
        ended = ResourceExhausted("'" + program.command + "' printed more than 1 MiB");
      } else if (MonotonicClock::now() >= deadline) {
        ended = DeadlineExceeded("'" + program.command + "' did not end in time");
      }
      if (!ended.ok()) {
        kill(-pid, SIGKILL);
        is_killed = true;
      }
    }
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (stop.stop_requested()) return Cancelled("'" + program.command + "' was stopped");
  JANUS_RETURN_IF_ERROR(ended);
  if (output.out.size() > kMostProgramOutputBytes) {
    return ResourceExhausted("'" + program.command + "' printed more than 1 MiB");
  }
  output.exit_code = ExitCode(status);
  return output;
}

}  // namespace janus::control
