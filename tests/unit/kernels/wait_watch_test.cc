#include "kernels/device/wait_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/time_scale.h"

namespace janus::kernels {
namespace {

struct Heard {
  std::string what;
  Seconds so_long;
};

TEST(WaitWatch, HearsOfTheWaitThatIsTooLong) {
  std::promise<Heard> heard;
  WaitWatch watch(Seconds(0.05), [&](std::string_view what, Seconds so_long) {
    heard.set_value({std::string(what), so_long});
  });
  {
    const WaitWatch::Wait first(&watch, "the first");
    const WaitWatch::Wait other(&watch, "another");
  }
  const WaitWatch::Wait wait(&watch, "what never ends");
  const Heard said = heard.get_future().get();
  EXPECT_EQ(said.what, "what never ends");
  EXPECT_GT(said.so_long, Seconds(0.05));
  EXPECT_LT(said.so_long, Scaled(Seconds(5)));
}

// Each wait ends well before it is too long, but together they take much longer.
TEST(WaitWatch, ManyShortWaitsAreNone) {
  std::atomic<int> heard = 0;
  {
    WaitWatch watch(Scaled(Seconds(2)), [&](std::string_view, Seconds) { ++heard; });
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20'000; ++i) {
          const WaitWatch::Wait outer(&watch, "one");
          const WaitWatch::Wait inner(&watch, "within");
        }
      });
    }
    const MonotonicTime end = MonotonicClock::now() + Scaled(std::chrono::seconds(5));
    while (MonotonicClock::now() < end) const WaitWatch::Wait wait(&watch, "again");
  }
  EXPECT_EQ(heard, 0);
}

// Another process stops this one for `pause`. Returns when it continues.
void StandStill(std::chrono::milliseconds pause) {
  const pid_t self = getpid();
  const pid_t other = fork();
  ASSERT_GE(other, 0);
  if (other == 0) {
    kill(self, SIGSTOP);
    std::this_thread::sleep_for(pause);
    kill(self, SIGCONT);
    _exit(0);
  }
  ASSERT_EQ(waitpid(other, nullptr, 0), other);
}

// A pause does not count as waiting. A wait that goes on after it is reported once it is too long.
TEST(WaitWatch, APauseOfTheProcessIsNoWait) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto pause = [] {
    std::atomic<bool> heard = false;
    WaitWatch watch(Scaled(Seconds(1.6)), [&](std::string_view, Seconds) { heard = true; });
    {
      const WaitWatch::Wait wait(&watch, "what goes on");
      StandStill(Scaled(std::chrono::milliseconds(2000)));
      // Two look-ups of the watch.
      std::this_thread::sleep_for(Scaled(std::chrono::milliseconds(400)));
    }
    std::_Exit(heard ? 1 : 0);
  };
  EXPECT_EXIT(pause(), testing::ExitedWithCode(0), "");
}

TEST(WaitWatch, NobodyNeedsOne) {
  const WaitWatch::Wait wait(nullptr, "whatever");
}

}  // namespace
}  // namespace janus::kernels
