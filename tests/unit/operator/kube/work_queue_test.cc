#include "operator/kube/work_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/support/fake_clock.h"
#include "tests/support/random.h"

namespace janus::control {
namespace {

const ObjectKey kA{"prod", "a"};
const ObjectKey kB{"prod", "b"};
const ObjectKey kC{"prod", "c"};

class WorkQueueTest : public testing::Test {
 protected:
  // Takes a key and returns its name; "-": nothing.
  std::string Take() {
    const std::optional<ObjectKey> key = queue_.TryTake(clock_.Now());
    return key ? key->name : "-";
  }
  MonotonicTime In(double seconds) const {
    return clock_.Now() + std::chrono::duration_cast<MonotonicTime::duration>(Seconds(seconds));
  }
  FakeClock clock_;
  WorkQueue queue_{WorkQueueOptions{}};
};

TEST_F(WorkQueueTest, Invariant1AKeyWaitsOnce) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue_.Add(kA, clock_.Now()).ok());
  EXPECT_TRUE(queue_.AddAt(kA, In(1)).ok());
  EXPECT_EQ(queue_.depth(), 1U);
  EXPECT_EQ(Take(), "a");
  queue_.Done(kA, clock_.Now());
  clock_.Advance(Seconds(2));
  EXPECT_EQ(Take(), "-");
}

TEST_F(WorkQueueTest, Invariant2AKeyIsWithOneWorkerAndWaitsAgain) {
  EXPECT_TRUE(queue_.Add(kA, clock_.Now()).ok());
  EXPECT_EQ(Take(), "a");
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(queue_.Add(kA, clock_.Now()).ok());
  EXPECT_EQ(Take(), "-");
  queue_.Done(kA, clock_.Now());
  EXPECT_EQ(Take(), "a");
  queue_.Done(kA, clock_.Now());
  EXPECT_EQ(Take(), "-");
  // A time that arrives while a worker has the key counts too.
  EXPECT_TRUE(queue_.Add(kA, clock_.Now()).ok());
  EXPECT_EQ(Take(), "a");
  EXPECT_TRUE(queue_.AddAt(kA, In(1)).ok());
  clock_.Advance(Seconds(2));
  EXPECT_EQ(Take(), "-");
  queue_.Done(kA, clock_.Now());
  EXPECT_EQ(Take(), "a");
}

TEST_F(WorkQueueTest, Invariant3ABusyKeyDoesNotStarveOthers) {
  for (const ObjectKey& key : {kA, kB, kC}) EXPECT_TRUE(queue_.Add(key, clock_.Now()).ok());
  std::string order;
  for (int i = 0; i < 6; ++i) {
    const std::string taken = Take();
    order += taken;
    EXPECT_TRUE(queue_.Add({"prod", taken}, clock_.Now()).ok());
    queue_.Done({"prod", taken}, clock_.Now());
  }
  EXPECT_EQ(order, "abcabc");
}

TEST_F(WorkQueueTest, Invariant4TheEarliestTimeCounts) {
  EXPECT_EQ(queue_.NextDeadline(), std::nullopt);
  EXPECT_TRUE(queue_.AddAt(kA, In(10)).ok());
  EXPECT_TRUE(queue_.AddAt(kA, In(5)).ok());
  EXPECT_TRUE(queue_.AddAt(kA, In(7)).ok());
  EXPECT_TRUE(queue_.AddAt(kB, In(6)).ok());
  EXPECT_EQ(queue_.NextDeadline(), In(5));
  clock_.Advance(Seconds(4.9));
  EXPECT_EQ(Take(), "-");
  clock_.Advance(Seconds(0.2));
  EXPECT_EQ(Take(), "a");
  EXPECT_TRUE(queue_.Add(kB, clock_.Now()).ok());  // at once
  EXPECT_EQ(Take(), "b");
  EXPECT_EQ(queue_.NextDeadline(), std::nullopt);
}

TEST_F(WorkQueueTest, FailuresWaitLongerUntilForgotten) {
  EXPECT_TRUE(queue_.Add(kA, clock_.Now()).ok());
  EXPECT_TRUE(queue_.Add(kB, clock_.Now()).ok());
  EXPECT_EQ(Take(), "a");
  double pause = 0.005;
  for (int failure = 1; failure <= 20; ++failure, pause = std::min(pause * 2, 300.0)) {
    queue_.Retry(kA, clock_.Now());
    EXPECT_EQ(queue_.failures(kA), failure);
    EXPECT_EQ(Seconds(*queue_.NextDeadline() - clock_.Now()).count(), pause);
    if (failure == 1) {
      EXPECT_EQ(Take(), "b");  // other keys do not wait for it
    }
    clock_.Advance(Seconds(pause));
    EXPECT_EQ(Take(), "a");
  }
  queue_.Forget(kA);
  EXPECT_EQ(queue_.failures(kA), 0);
  queue_.Retry(kA, clock_.Now());
  EXPECT_EQ(*queue_.NextDeadline(), In(0.005));
}

TEST_F(WorkQueueTest, AChangeDuringAFailureIsLookedAtAtOnce) {
  EXPECT_TRUE(queue_.Add(kA, clock_.Now()).ok());
  EXPECT_EQ(Take(), "a");
  EXPECT_TRUE(queue_.Add(kA, clock_.Now()).ok());
  queue_.Retry(kA, clock_.Now());
  EXPECT_EQ(Take(), "a");
  EXPECT_EQ(queue_.failures(kA), 1);
}

TEST(WorkQueue, ItsKeysAreBoundedAndGoWhenTheyAreThrough) {
  FakeClock clock;
  WorkQueueOptions options;
  options.capacity = 2;
  WorkQueue queue(options);
  EXPECT_TRUE(queue.Add(kA, clock.Now()).ok());
  EXPECT_TRUE(queue.AddAt(kB, clock.Now() + std::chrono::seconds(9)).ok());
  EXPECT_EQ(queue.Add(kC, clock.Now()).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(queue.Add(kA, clock.Now()).ok());  // known already
  EXPECT_EQ(queue.TryTake(clock.Now()), kA);
  EXPECT_EQ(queue.Add(kC, clock.Now()).code(), StatusCode::kResourceExhausted);  // one is at a
                                                                                 // worker
  queue.Retry(kA, clock.Now());
  EXPECT_EQ(queue.Add(kC, clock.Now()).code(), StatusCode::kResourceExhausted);  // one has failed
  clock.Advance(Seconds(1));
  EXPECT_EQ(queue.TryTake(clock.Now()), kA);
  queue.Forget(kA);
  queue.Done(kA, clock.Now());
  EXPECT_TRUE(queue.Add(kC, clock.Now()).ok());
}

// In the end a worker must have seen the latest change of each key.
TEST(WorkQueue, NoChangeIsLostInAnyOrderOfCalls) {
  for (uint64_t run = 0; run < 200; ++run) {
    SCOPED_TRACE(run);
    std::minstd_rand random(MixSeed(TestSeed(), run));
    FakeClock clock;
    WorkQueue queue{WorkQueueOptions{}};
    const std::vector<ObjectKey> keys = {kA, kB, kC};
    std::map<ObjectKey, int> now_at;
    std::map<ObjectKey, int> seen;
    std::map<ObjectKey, int> working;  // what its worker has read
    for (int i = 0; i < 200; ++i) {
      const ObjectKey& key = keys[random() % keys.size()];
      switch (random() % 4) {
        case 0:
          ++now_at[key];
          ASSERT_TRUE(queue.Add(key, clock.Now()).ok());
          break;
        case 1:
          if (const std::optional<ObjectKey> taken = queue.TryTake(clock.Now())) {
            ASSERT_FALSE(working.contains(*taken));
            working[*taken] = now_at[*taken];
          }
          break;
        case 2:
          if (!working.contains(key)) break;
          if (random() % 3 == 0) {
            queue.Retry(key, clock.Now());
          } else {
            seen[key] = working[key];
            queue.Forget(key);
            queue.Done(key, clock.Now());
          }
          working.erase(key);
          break;
        default:
          clock.Advance(Seconds(0.01));
      }
    }
    for (const auto& [key, read] : working) {
      seen[key] = read;
      queue.Done(key, clock.Now());
    }
    clock.Advance(Seconds(1000));
    while (const std::optional<ObjectKey> taken = queue.TryTake(clock.Now())) {
      seen[*taken] = now_at[*taken];
      queue.Done(*taken, clock.Now());
    }
    EXPECT_EQ(seen, now_at);
    EXPECT_EQ(queue.depth(), 0U);
  }
}

}  // namespace
}  // namespace janus::control
