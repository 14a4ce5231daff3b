#include "operator/local/processes.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/time_scale.h"

namespace janus::control {
namespace {

using namespace std::chrono_literals;

std::string ReadText(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// True if the process ends within 10 s (time_scale.h).
bool IsGone(pid_t pid) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return errno == ESRCH;
  pollfd exit = {fd, POLLIN, 0};
  const bool gone = poll(&exit, 1, ScaledForPoll(10s)) == 1;
  close(fd);
  return gone;
}

class ProcessesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "/janus-processes-XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    dir_ = path;
    Result<std::unique_ptr<Processes>> made = Processes::Create({dir_, 4096});
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    processes_ = *std::move(made);
  }
  void TearDown() override {
    processes_.reset();
    std::filesystem::remove_all(dir_);
  }

  Status StartShell(const std::string& name, const std::string& script) {
    return processes_->Start({name, "/bin/sh", {"-c", script}});
  }

  // The next event, within 10 s.
  ProcessEvent Await() {
    const MonotonicTime deadline = MonotonicClock::now() + Scaled(10s);
    while (MonotonicClock::now() < deadline) {
      if (std::optional<ProcessEvent> event = processes_->NextEvent()) return *event;
      pollfd fd = {processes_->event_fd(), POLLIN, 0};
      poll(&fd, 1, 1000);
    }
    ADD_FAILURE() << "no event within 10 s";
    return {};
  }

  std::string dir_;
  std::unique_ptr<Processes> processes_;
};

TEST_F(ProcessesTest, TellsTheReadyLineAndKeepsTheOutput) {
  ASSERT_TRUE(
      StartShell("a", "echo hello; echo oops >&2; echo ready unix:/x.sock; sleep 100").ok());
  const ProcessEvent event = Await();
  EXPECT_EQ(event.kind, ProcessEvent::Kind::kReady);
  EXPECT_EQ(event.name, "a");
  EXPECT_EQ(event.text, "unix:/x.sock");
  EXPECT_EQ(processes_->running(), 1);
  processes_->Stop(Scaled(5s));
  EXPECT_EQ(processes_->running(), 0);
  EXPECT_EQ(ReadText(dir_ + "/a.log"), "hello\noops\nready unix:/x.sock\n");
}

TEST_F(ProcessesTest, GivesTheReasonTheLastErrorLineAndTheLog) {
  ASSERT_TRUE(
      StartShell("a", "echo '2026-01-01 error message=\"broken shard\"'; echo bye; exit 3").ok());
  const ProcessEvent event = Await();
  EXPECT_EQ(event.kind, ProcessEvent::Kind::kExited);
  EXPECT_FALSE(event.clean());
  EXPECT_FALSE(event.expected);
  EXPECT_EQ(event.text,
            "a exited with status 3; its last words: 2026-01-01 error "
            "message=\"broken shard\"; log: " +
                dir_ + "/a.log");
}

TEST_F(ProcessesTest, SaysOfAnExitInOrderThatItWasNoFailure) {
  ASSERT_TRUE(StartShell("a", "echo '2026-01-01 info message=\"serving\"'").ok());
  EXPECT_EQ(Await().text, "a ended by itself or was stopped (SIGTERM); log: " + dir_ + "/a.log");
}

TEST_F(ProcessesTest, NamesTheSignal) {
  ASSERT_TRUE(StartShell("a", "kill -SEGV $$").ok());
  EXPECT_EQ(Await().text, "a was ended by SIGSEGV; log: " + dir_ + "/a.log");
  ASSERT_TRUE(StartShell("b", "kill -KILL $$").ok());
  EXPECT_EQ(Await().text,
            "b was ended by SIGKILL (by hand, or by the kernel when memory runs out); log: " +
                dir_ + "/b.log");
}

TEST_F(ProcessesTest, CallsAStoppedProcessExpected) {
  ASSERT_TRUE(
      StartShell("a", "trap 'exit 0' TERM; echo ready x; while :; do sleep 0.01; done").ok());
  EXPECT_EQ(Await().kind, ProcessEvent::Kind::kReady);
  processes_->Stop(Scaled(10s));
  const ProcessEvent event = Await();
  EXPECT_EQ(event.kind, ProcessEvent::Kind::kExited);
  EXPECT_TRUE(event.expected);
  EXPECT_TRUE(event.clean());
}

TEST_F(ProcessesTest, KillsWhoDoesNotHeedTheRequest) {
  ASSERT_TRUE(StartShell("a", "trap '' TERM; echo ready x; while :; do sleep 0.01; done").ok());
  EXPECT_EQ(Await().kind, ProcessEvent::Kind::kReady);
  processes_->Stop(0.1s);
  EXPECT_EQ(processes_->running(), 0);
  EXPECT_NE(Await().text.find("SIGKILL"), std::string::npos);
}

TEST_F(ProcessesTest, TakesAChildsOwnChildrenWithIt) {
  ASSERT_TRUE(StartShell("a", "sleep 1000 & echo ready $!; exit 1").ok());
  const ProcessEvent ready = Await();
  ASSERT_EQ(ready.kind, ProcessEvent::Kind::kReady);
  EXPECT_EQ(Await().kind, ProcessEvent::Kind::kExited);
  EXPECT_TRUE(IsGone(std::stoi(ready.text)));
}

// A shell that lives only a little longer than its leader could be missed: so the group is killed
// while the leader still has its number.
TEST_F(ProcessesTest, TakesTheGroupOfALeaderThatWasKilled) {
  ASSERT_TRUE(StartShell("a", "sleep 1000 & echo ready $!; kill -KILL $$").ok());
  const ProcessEvent ready = Await();
  ASSERT_EQ(ready.kind, ProcessEvent::Kind::kReady);
  EXPECT_NE(Await().text.find("SIGKILL"), std::string::npos);
  EXPECT_TRUE(IsGone(std::stoi(ready.text)));
}

TEST_F(ProcessesTest, ToldOfAnExitWhoseStatusSomebodyElseTook) {
  ASSERT_TRUE(
      StartShell("a", "trap 'exit 0' TERM; echo ready x; while :; do sleep 0.01; done").ok());
  EXPECT_EQ(Await().kind, ProcessEvent::Kind::kReady);
  const auto before = signal(SIGCHLD, SIG_IGN);  // the kernel reaps
  processes_->Stop(Scaled(10s));
  signal(SIGCHLD, before);
  const ProcessEvent event = Await();
  EXPECT_EQ(event.kind, ProcessEvent::Kind::kExited);
  EXPECT_FALSE(event.clean());
  EXPECT_NE(event.text.find("took its exit status"), std::string::npos) << event.text;
  EXPECT_EQ(processes_->running(), 0);
}

TEST_F(ProcessesTest, TellsHowItEndedInNumbers) {
  ASSERT_TRUE(StartShell("a", "exit 3").ok());
  ProcessEvent event = Await();
  EXPECT_EQ(std::pair(event.exit_code, event.signal), std::pair(3, 0));
  ASSERT_TRUE(StartShell("a", "kill -SEGV $$").ok()) << "its name is free again";
  event = Await();
  EXPECT_EQ(std::pair(event.exit_code, event.signal), std::pair(0, SIGSEGV));
}

TEST_F(ProcessesTest, SignalsTheOneThatIsMeant) {
  const std::string script = "trap 'exit 7' USR1; echo ready x; while :; do sleep 0.01; done";
  ASSERT_TRUE(StartShell("a", script).ok());
  EXPECT_EQ(Await().name, "a");
  ASSERT_TRUE(StartShell("b", script).ok());
  EXPECT_EQ(Await().name, "b");
  processes_->Signal("b", SIGUSR1);
  processes_->Signal("c", SIGUSR1);  // no such process
  const ProcessEvent event = Await();
  EXPECT_EQ(std::pair(event.name, event.exit_code), std::pair(std::string("b"), 7));
  EXPECT_EQ(processes_->running(), 1);
}

TEST_F(ProcessesTest, GivesItsEnvironmentWithWhatIsSet) {
  ASSERT_EQ(setenv("JANUS_PROCESSES_TEST", "inherited", 1), 0);
  ASSERT_EQ(setenv("JANUS_PROCESSES_TEST_2", "inherited", 1), 0);
  ProcessSpec spec{"a", "/bin/sh", {"-c", "echo $JANUS_PROCESSES_TEST $JANUS_PROCESSES_TEST_2"}};
  spec.environment = {"JANUS_PROCESSES_TEST=set"};
  ASSERT_TRUE(processes_->Start(spec).ok());
  Await();
  EXPECT_EQ(ReadText(dir_ + "/a.log"), "set inherited\n");
}

TEST_F(ProcessesTest, UndoesAnInheritedIgnoredSigchld) {
  const auto before = signal(SIGCHLD, SIG_IGN);
  processes_ = *Processes::Create({dir_, 4096});
  ASSERT_TRUE(StartShell("a", "exit 3").ok());
  EXPECT_NE(Await().text.find("exited with status 3"), std::string::npos);
  signal(SIGCHLD, before);
}

TEST_F(ProcessesTest, LeavesNobodyWhenItIsDestroyed) {
  ASSERT_TRUE(StartShell("a", "trap '' TERM; echo ready $$; while :; do sleep 0.01; done").ok());
  const pid_t pid = std::stoi(Await().text);
  processes_.reset();
  EXPECT_TRUE(IsGone(pid));
}

TEST_F(ProcessesTest, SaysWhichProgramCannotStart) {
  const Status status = processes_->Start({"a", dir_ + "/none", {}});
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.message(), dir_ + "/none: cannot be started: No such file or directory");
  EXPECT_EQ(processes_->Start({"b", dir_, {}}).code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(processes_->running(), 0);
}

TEST_F(ProcessesTest, SaysWhatToDoWhereNoMoreFilesCanBeOpen) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(0);  // the lowest free descriptor
  close(next);
  for (const rlim_t room : {0, 1}) {  // room for the log only; for the log and one end of a pipe
    const rlimit few{static_cast<rlim_t>(next) + room, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    const Status status = StartShell("a", "true");
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(status.message(), (room == 0 ? dir_ + "/a.log" : "pipe") +
                                    ": Too many open files; raise the limit of open files "
                                    "(ulimit -n)");
  }
}

TEST_F(ProcessesTest, BoundsTheLogAndKeepsTheOneBefore) {
  ASSERT_TRUE(
      StartShell("a", "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done").ok());
  EXPECT_EQ(Await().kind, ProcessEvent::Kind::kExited);
  // Appended after reads of up to 16 KiB, so a file may exceed its limit by one read.
  EXPECT_LE(std::filesystem::file_size(dir_ + "/a.log"), 4096u + 16384u);
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/a.log.1"));
  EXPECT_NE(ReadText(dir_ + "/a.log").find("line 1999\n"), std::string::npos);

  ASSERT_TRUE(StartShell("a", "echo second run").ok());
  EXPECT_EQ(Await().kind, ProcessEvent::Kind::kExited);
  EXPECT_EQ(ReadText(dir_ + "/a.log"), "second run\n");
  EXPECT_NE(ReadText(dir_ + "/a.log.1").find("line 1999\n"), std::string::npos);
}

TEST_F(ProcessesTest, GivesNoOpenFileAndNoBlockedSignalToTheChild) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);  // without close-on-exec, as in some library
  sigset_t block, before;
  sigemptyset(&block);
  sigaddset(&block, SIGTERM);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &block, &before), 0);
  const Status started = StartShell("a", "[ -e /proc/self/fd/" + std::to_string(fds[0]) +
                                             " ] && echo inherited; echo ready x; sleep 100");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(started.ok());
  EXPECT_EQ(Await().kind, ProcessEvent::Kind::kReady);
  processes_->Stop(Scaled(10s));
  EXPECT_NE(Await().text.find("SIGTERM"), std::string::npos) << "SIGTERM stayed blocked";
  EXPECT_EQ(ReadText(dir_ + "/a.log"), "ready x\n");
  close(fds[0]);
  close(fds[1]);
}

// If a run is killed, its processes die with it.
TEST(Processes, DieWithTheProcessThatStartedThem) {
  std::string dir = testing::TempDir() + "/janus-death-XXXXXX";
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t run = fork();
  ASSERT_GE(run, 0);
  if (run == 0) {
    auto processes = Processes::Create({dir});
    if (!processes.ok() ||
        !(*processes)->Start({"a", "/bin/sh", {"-c", "echo ready $$; sleep 1000"}}).ok()) {
      _exit(1);
    }
    while (true) {
      pollfd fd = {(*processes)->event_fd(), POLLIN, 0};
      poll(&fd, 1, -1);
      if (const auto event = (*processes)->NextEvent()) {
        const pid_t pid = std::stoi(event->text);
        if (write(fds[1], &pid, sizeof(pid)) != sizeof(pid)) _exit(1);
      }
    }
  }
  close(fds[1]);
  pid_t worker = 0;
  ASSERT_EQ(read(fds[0], &worker, sizeof(worker)), static_cast<ssize_t>(sizeof(worker)));
  close(fds[0]);
  ASSERT_EQ(kill(worker, 0), 0);
  kill(run, SIGKILL);
  waitpid(run, nullptr, 0);
  EXPECT_TRUE(IsGone(worker));
  std::filesystem::remove_all(dir);
}

TEST(FindSibling, SaysWhereItLookedAndWhatToDo) {
  const Status status = FindSibling("janus-nothing").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(
      status.message().find("/janus-nothing: No such file or directory; janus-nothing must lie "
                            "beside "),
      std::string::npos)
      << status.message();
  EXPECT_TRUE(FindSibling("operator_local_test").ok());
}

}  // namespace
}  // namespace janus::control
