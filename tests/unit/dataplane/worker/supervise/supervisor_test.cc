// The supervisor with real worker processes. They serve no model; each answers its probes.

#include "dataplane/worker/supervise/supervisor.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <thread>

#include "dataplane/worker/supervise/fetch_pages.h"
#include "tests/support/contains.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"
#include "tests/support/time_scale.h"
#include "tests/unit/dataplane/worker/supervise/program.h"

namespace janus::dataplane {
namespace {

constexpr int kInstances = 3;

// Whether this process has any child, zombies too.
bool HasChildren() {
  siginfo_t info{};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

// Stops a child. The signal alone acts a little later, and the child may still answer.
void Stop(pid_t child) {
  kill(child, SIGSTOP);
  siginfo_t info{};
  EXPECT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WSTOPPED | WNOWAIT), 0);
}

class SupervisorTest : public testing::Test {
 protected:
  SupervisorTest() {
    limits_.look_every = std::chrono::milliseconds(10);
    limits_.ask_every = std::chrono::milliseconds(50);
    limits_.answer_within = Scaled(std::chrono::milliseconds(2000));
    limits_.gather_within = Scaled(std::chrono::milliseconds(2000));
  }

  // Runs the supervisor on this thread, as it requires, and `act` beside it once all instances are
  // ready. Then asks it to end, unless it has ended. Returns the exit code.
  int Run(const std::function<void()>& act) {
    StopSignals stop;
    const Supervision what{
        .instances = kInstances, .run_folder = folder_.path(), .listen = listen_};
    std::vector<std::string> arguments = {"janus-worker", "--role=experts", "--model=/",
                                          "--service-uid=x", "--drain-seconds=5"};
    arguments.insert(arguments.end(), more_.begin(), more_.end());
    std::vector<ChildCommand> commands;
    for (int index = 0; index < kInstances; ++index) {
      commands.push_back(*CommandOf(index, what, arguments, {}));
    }
    std::atomic<int> times_ready = 0;
    std::atomic<bool> has_ended = false;
    Supervisor supervisor({.commands = commands,
                           .program = program_,
                           .pages = "unix:" + Pages(),
                           .on_ready = [&] { ++times_ready; },
                           .limits = limits_},
                          stop, Logger(2, LogLevel::kError));
    std::jthread beside([&] {
      EXPECT_TRUE(Await([&] { return times_ready > 0 || has_ended; }));
      if (act) act();
      if (!ends_by_signal_) {
        EXPECT_TRUE(Await([&] { return has_ended.load(); })) << "it does not end by itself";
      }
      if (has_ended) return;
      StopSignals::Request();
      if (Await([&] { return has_ended.load(); })) return;
      ADD_FAILURE() << "it waits for an instance that does not end";
      for (const auto& [index, pid] : ChildrenOf(getpid())) kill(pid, SIGKILL);
    });
    const int code = supervisor.Run();
    has_ended = true;
    beside.join();
    EXPECT_LE(times_ready, 1);
    EXPECT_FALSE(HasChildren()) << "a child or a zombie is left";
    return code;
  }

  std::string Pages() const { return folder_.path() + "/pages"; }
  std::optional<std::string> Page(const std::string& path) const {
    return FetchPages({Pages()}, path, Scaled(std::chrono::milliseconds(10000))).front();
  }
  // Waits until another process than `before` is the instance, and all are ready again.
  bool AwaitReplaced(int index, pid_t before) const {
    return Await([&] {
      const std::map<int, pid_t> now = ChildrenOf(getpid());
      return now.size() == kInstances && now.at(index) != before && Page("/startup").has_value();
    });
  }

  const TempFolder folder_;
  std::string program_ = test::BinDir() + "/janus-worker";
  std::string listen_ = "unix:" + folder_.path() + "/w:9000";
  std::vector<std::string> more_;
  SupervisorLimits limits_;
  bool ends_by_signal_ = true;
};

TEST_F(SupervisorTest, AllPagesAreJoinedAndOneSignalEndsAll) {
  EXPECT_EQ(Run([&] {
              EXPECT_EQ(ChildrenOf(getpid()).size(), size_t{kInstances});
              for (const char* page : {"/startup", "/ready", "/live"}) {
                EXPECT_EQ(Page(page), "ok\n") << page;
              }
              for (const int port : {9000, 9010, 9020}) {
                EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/w:" + std::to_string(port)));
              }
              const std::string text = Page("/metrics").value_or("");
              for (int index = 0; index < kInstances; ++index) {
                const std::string label = "{index=\"" + std::to_string(index) + "\"";
                EXPECT_TRUE(Contains(text, "\njanus_topology_epoch" + label + ",role=\"experts\""));
                EXPECT_TRUE(Contains(text, "\njanus_worker_restarts_total" + label + "} 0\n"));
              }
              EXPECT_EQ(text.find("# TYPE janus_topology_epoch "),
                        text.rfind("# TYPE janus_topology_epoch "));
            }),
            0);
}

TEST_F(SupervisorTest, AKilledInstanceAloneIsStartedAgain) {
  EXPECT_EQ(Run([&] {
              const std::map<int, pid_t> before = ChildrenOf(getpid());
              ASSERT_EQ(before.size(), size_t{kInstances});
              kill(before.at(1), SIGKILL);
              EXPECT_TRUE(AwaitReplaced(1, before.at(1)));
              EXPECT_EQ(ChildrenOf(getpid()).at(0), before.at(0));
              EXPECT_EQ(ChildrenOf(getpid()).at(2), before.at(2));
              EXPECT_TRUE(Contains(Page("/metrics").value_or(""),
                                   "janus_worker_restarts_total{index=\"1\"} 1\n"));
            }),
            0);
}

TEST_F(SupervisorTest, AHungInstanceIsFoundKilledAndStartedAgain) {
  EXPECT_EQ(Run([&] {
              const std::map<int, pid_t> before = ChildrenOf(getpid());
              ASSERT_EQ(before.size(), size_t{kInstances});
              Stop(before.at(2));
              EXPECT_FALSE(Page("/startup")) << "not all answer";
              EXPECT_EQ(Page("/ready"), "ok\n") << "the others serve";
              EXPECT_EQ(Page("/live"), "ok\n") << "the supervisor itself is well";
              EXPECT_TRUE(AwaitReplaced(2, before.at(2)));
              EXPECT_EQ(ChildrenOf(getpid()).at(0), before.at(0));
              EXPECT_EQ(ChildrenOf(getpid()).at(1), before.at(1));
            }),
            0);
}

// No time at all: the first look finds each late, and the third kill ends the supervisor.
TEST_F(SupervisorTest, AnInstanceThatDoesNotBecomeReadyInTimeIsKilled) {
  ends_by_signal_ = false;
  limits_.start_within = std::chrono::milliseconds(0);
  EXPECT_EQ(Run(nullptr), 1);
}

TEST_F(SupervisorTest, ThreeEndsWithinAMinuteEndAll) {
  ends_by_signal_ = false;
  EXPECT_EQ(Run([&] {
              const std::map<int, pid_t> all = ChildrenOf(getpid());
              ASSERT_EQ(all.size(), size_t{kInstances});
              for (const auto& [index, pid] : all) kill(pid, SIGKILL);
            }),
            1);
}

TEST_F(SupervisorTest, AnInstanceThatIgnoresSigtermIsKilledWhenTheSupervisorGivesUp) {
  ends_by_signal_ = false;
  limits_.end_within = std::chrono::milliseconds(50);
  limits_.ask_every = std::chrono::hours(1);  // the hang is not found
  EXPECT_EQ(Run([&] {
              const std::map<int, pid_t> hung = ChildrenOf(getpid());
              ASSERT_EQ(hung.size(), size_t{kInstances});
              kill(hung.at(0), SIGSTOP);
              for (int i = 0; i < 3; ++i) {
                const pid_t before = ChildrenOf(getpid()).at(1);
                kill(before, SIGKILL);
                if (i == 2) break;
                ASSERT_TRUE(Await([&] {
                  const std::map<int, pid_t> now = ChildrenOf(getpid());
                  return now.contains(1) && now.at(1) != before;
                }));
              }
            }),
            1);
}

TEST_F(SupervisorTest, InstancesThatCannotStartEndIt) {
  ends_by_signal_ = false;
  more_ = {"--device=tpu"};
  EXPECT_EQ(Run(nullptr), 1);
  program_ = "/nonexistent/program";
  EXPECT_EQ(Run(nullptr), 1);
}

// A stop signal that arrives before an instance reads signals waits there.
TEST_F(SupervisorTest, ASignalBeforeTheInstancesAreReadyEndsThemWithoutARestart) {
  const Supervision what{.instances = 1, .run_folder = folder_.path(), .listen = listen_};
  StopSignals stop;
  StopSignals::Request();
  Supervisor supervisor(
      {.commands = {*CommandOf(
           0, what, {"janus-worker", "--role=experts", "--model=/", "--service-uid=x"}, {})},
       .program = program_,
       .pages = "",
       .on_ready = nullptr,
       .limits = limits_},
      stop, Logger(2, LogLevel::kError));
  EXPECT_EQ(supervisor.Run(), 0);
  EXPECT_FALSE(HasChildren());
}

// The program itself, with its flags.
class WorkerProgramTest : public SupervisorTest {
 protected:
  std::vector<std::string> Arguments() const {
    return {program_,
            "--role=attention",
            "--model=/",
            "--service-uid=x",
            "--supervise=2",
            "--run-folder=" + folder_.path() + "/a/b",
            "--listen=" + listen_,
            "--metrics=unix:" + Pages()};
  }
};

TEST_F(WorkerProgramTest, SaysOnceThatItIsReadyAndEndsWithAllItsInstances) {
  Program program(Arguments());
  EXPECT_EQ(program.Line(), "ready " + listen_);
  EXPECT_TRUE(
      Await([&] { return Page("/metrics") && Contains(*Page("/metrics"), "index=\"1\""); }));
  kill(program.pid(), SIGTERM);
  EXPECT_EQ(program.Line(), "") << "the instances have written nothing and have ended";
  EXPECT_EQ(program.Wait(), 0);
  struct stat folder {};
  ASSERT_EQ(stat((folder_.path() + "/a/b").c_str(), &folder), 0);
  EXPECT_EQ(folder.st_mode & 0777, 0700u);
}

TEST_F(WorkerProgramTest, ItsInstancesDieWithIt) {
  Program program(Arguments());
  EXPECT_EQ(program.Line(), "ready " + listen_);
  kill(program.pid(), SIGKILL);
  // Every instance holds the pipe's other end until it has ended.
  EXPECT_EQ(program.Line(), "");
  EXPECT_EQ(program.Wait(), -SIGKILL);
}

TEST_F(WorkerProgramTest, FlagsThatCannotBeUsedAreRefused) {
  std::vector<std::string> arguments = Arguments();
  arguments[6] = "--listen=unix:" + folder_.path() + "/w";
  EXPECT_EQ(Program(arguments).Wait(), 2);
  arguments = Arguments();
  arguments[5] = "--run-folder=/dev/null/x";
  EXPECT_EQ(Program(arguments).Wait(), 2);
}

}  // namespace
}  // namespace janus::dataplane
