#include "kernels/device/wait_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

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
  EXPECT_LT(said.so_long, Seconds(5));
}

// Each ends well before it is too long, and all of them take much longer.
TEST(WaitWatch, ManyShortWaitsAreNone) {
  std::atomic<int> heard = 0;
  {
    WaitWatch watch(Seconds(2), [&](std::string_view, Seconds) { ++heard; });
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20'000; ++i) {
          const WaitWatch::Wait outer(&watch, "one");
          const WaitWatch::Wait inner(&watch, "within");
        }
      });
    }
    const MonotonicTime end = MonotonicClock::now() + std::chrono::milliseconds(600);
    while (MonotonicClock::now() < end) const WaitWatch::Wait wait(&watch, "again");
  }
  EXPECT_EQ(heard, 0);
}

TEST(WaitWatch, NobodyNeedsOne) {
  const WaitWatch::Wait wait(nullptr, "whatever");
}

}  // namespace
}  // namespace janus::kernels
