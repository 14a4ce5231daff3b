#include "operator/manager/key_queue.h"

#include <gtest/gtest.h>

#include <future>

namespace janus::control {
namespace {

const ObjectKey kA{"prod", "a"};
const ObjectKey kB{"prod", "b"};

TEST(KeyQueue, AWaitingWorkerIsWokenByAKey) {
  KeyQueue queue{WorkQueueOptions{}};
  auto taken = std::async(std::launch::async, [&] { return queue.Take({}); });
  queue.Add(kA);
  EXPECT_EQ(taken.get(), kA);
}

TEST(KeyQueue, AWaitEndsWhenAnEarlierKeyIsAdded) {
  KeyQueue queue{WorkQueueOptions{}};
  queue.AddAt(kA, MonotonicClock::now() + std::chrono::hours(1));
  auto taken = std::async(std::launch::async, [&] { return queue.Take({}); });
  queue.AddAt(kB, MonotonicClock::now());
  EXPECT_EQ(taken.get(), kB);
}

TEST(KeyQueue, AWaitEndsWhenItIsStopped) {
  KeyQueue queue{WorkQueueOptions{}};
  std::stop_source stop;
  auto taken = std::async(std::launch::async, [&] { return queue.Take(stop.get_token()); });
  stop.request_stop();
  EXPECT_EQ(taken.get(), std::nullopt);
}

TEST(KeyQueue, AKeyAddedDuringItsWorkIsTakenOnceMore) {
  KeyQueue queue{WorkQueueOptions{}};
  queue.Add(kA);
  ASSERT_EQ(queue.Take({}), kA);
  auto again = std::async(std::launch::async, [&] { return queue.Take({}); });
  queue.Add(kA);
  queue.Done(kA);
  EXPECT_EQ(again.get(), kA);
}

TEST(KeyQueue, AKeyThatFailedComesBack) {
  KeyQueue queue{WorkQueueOptions{}};
  queue.Add(kA);
  ASSERT_EQ(queue.Take({}), kA);
  queue.Retry(kA);
  EXPECT_EQ(queue.Take({}), kA);
}

TEST(KeyQueue, SaysOnceThatThereWasNoRoom) {
  WorkQueueOptions options;
  options.capacity = 1;
  KeyQueue queue(options);
  queue.Add(kA);
  EXPECT_FALSE(queue.TakeOverflow());
  queue.Add(kB);
  EXPECT_TRUE(queue.TakeOverflow());
  EXPECT_FALSE(queue.TakeOverflow());
}

}  // namespace
}  // namespace janus::control
