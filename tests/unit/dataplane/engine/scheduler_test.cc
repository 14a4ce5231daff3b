#include "dataplane/engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/support/contains.h"
#include "tests/support/random.h"

namespace janus::dataplane {
namespace {

constexpr int64_t kPageBytes = 256;

// A scheduler on a cache of so many pages, and a stand-in for the model: every last row draws token
// 7.
class SchedulerTest : public testing::Test {
 protected:
  void MakeScheduler(int pages, int swap_pages, SchedulerOptions options = {8, 1000}) {
    KvPagePoolOptions cache;
    cache.layers = 1;
    cache.page_bytes = kPageBytes;
    cache.bytes = kPageBytes * pages;
    cache.swap_bytes = kPageBytes * swap_pages;
    cache_ = std::move(*KvPagePool::Create(cache));
    scheduler_.emplace(options, *cache_);
  }

  static Request Make(uint64_t id, int prompt, int max_tokens = 4) {
    Request request;
    request.key = {1, id, 1};
    request.prompt.assign(static_cast<size_t>(prompt), static_cast<int32_t>(id));
    request.max_tokens = max_tokens;
    return request;
  }
  void Submit(uint64_t id, int prompt, int max_tokens = 4) {
    const Status status = scheduler_->Submit(Make(id, prompt, max_tokens));
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  // One step; returns (id, position) of its rows.
  std::vector<std::pair<uint64_t, int>> Step(BatchLimits limits = {64, 64}) {
    const Batch batch = scheduler_->FormBatch(limits);
    EXPECT_LE(static_cast<int>(batch.rows.size()), limits.rows);
    EXPECT_LE(batch.prefill_rows, limits.prefill_rows);
    EXPECT_EQ(static_cast<int>(batch.rows.size()), batch.decode_rows + batch.prefill_rows);
    std::vector<std::pair<uint64_t, int>> rows;
    std::set<int32_t> pages;
    std::map<const Sequence*, int> rows_of;
    for (const BatchRow& row : batch.rows) {
      rows.emplace_back(row.sequence->request.key.id, row.position);
      EXPECT_EQ(row.token, row.sequence->tokens[static_cast<size_t>(row.position)]);
      const bool of_prompt =
          row.position < static_cast<int32_t>(row.sequence->request.prompt.size());
      EXPECT_EQ(row.position_class, of_prompt ? PositionClass::kPrompt : PositionClass::kGenerated);
      EXPECT_GE(static_cast<int>(row.sequence->pages.size()),
                KvPagePool::PagesFor(row.position + 1));
      EXPECT_EQ(row.position, row.sequence->computed + rows_of[row.sequence]) << "a gap";
      EXPECT_EQ(row.last, row.sequence->remaining() == rows_of[row.sequence] + 1);
      if (rows_of[row.sequence]++ > 0) continue;
      for (const int32_t page : row.sequence->pages) {
        EXPECT_TRUE(pages.insert(page).second) << "page " << page << " is held twice";
      }
    }
    scheduler_->MarkComputed(batch);
    std::vector<std::pair<Sequence*, int32_t>> drawn;
    for (const BatchRow& row : batch.rows) {
      if (row.last) drawn.emplace_back(row.sequence, 7);
    }
    for (auto& [sequence, token] : drawn) {
      const uint64_t id = sequence->request.key.id;
      const FinishReason finish = scheduler_->Append(*sequence, token);
      ++tokens_[id];
      if (finish == FinishReason::kNone) continue;
      finished_[id] = finish;
      scheduler_->Remove(*sequence);
    }
    return rows;
  }
  void RunToTheEnd(BatchLimits limits = {64, 64}) {
    for (int step = 0; !scheduler_->idle(); ++step) {
      ASSERT_LT(step, 10'000) << "it never ends";
      Step(limits);
    }
  }
  using Rows = std::vector<std::pair<uint64_t, int>>;

  std::unique_ptr<KvPagePool> cache_;
  std::optional<Scheduler> scheduler_;
  std::map<uint64_t, int> tokens_;
  std::map<uint64_t, FinishReason> finished_;
};

TEST_F(SchedulerTest, RefusesWhatCanNeverRun) {
  MakeScheduler(4, 0, {8, 50});
  EXPECT_TRUE(Contains(scheduler_->Submit(Make(1, 0)).message(), "empty"));
  EXPECT_EQ(scheduler_->Submit(Make(1, 50)).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Contains(scheduler_->Submit(Make(1, 50)).message(), "at most 49"));
  EXPECT_TRUE(scheduler_->Submit(Make(1, 49)).ok());
  MakeScheduler(2, 0, {8, 50});
  EXPECT_TRUE(Contains(scheduler_->Submit(Make(1, 30, 3)).message(), "kvCache.size"));
  EXPECT_TRUE(scheduler_->Submit(Make(1, 30, 2)).ok());
  EXPECT_EQ(scheduler_->Submit(Make(1, 10, INT32_MAX)).code(), StatusCode::kInvalidArgument)
      << "an answer bounded by the model's length alone needs more pages than there are";
}

TEST_F(SchedulerTest, CutsAPromptIntoChunksThatGoOnWhereTheyEnded) {
  MakeScheduler(8, 0);
  Submit(1, 10, 2);
  EXPECT_EQ(Step({64, 4}), (Rows{{1, 0}, {1, 1}, {1, 2}, {1, 3}}));
  EXPECT_EQ(tokens_[1], 0);
  EXPECT_EQ(Step({3, 64}), (Rows{{1, 4}, {1, 5}, {1, 6}}));
  EXPECT_EQ(Step(), (Rows{{1, 7}, {1, 8}, {1, 9}}));
  EXPECT_EQ(tokens_[1], 1) << "the last prompt position draws";
  EXPECT_EQ(Step(), (Rows{{1, 10}}));
  EXPECT_EQ(finished_[1], FinishReason::kLength);
  EXPECT_TRUE(scheduler_->idle());
  EXPECT_EQ(cache_->free_pages(), 8);
}

TEST_F(SchedulerTest, TellsWhatDecodesAndWhatWaitsForWhat) {
  MakeScheduler(16, 0, {2, 1000});
  const auto arrived = [](int second) { return MonotonicTime(std::chrono::seconds(second)); };
  for (int id = 1; id <= 3; ++id) {
    Request request = Make(static_cast<uint64_t>(id), 10 * id, 5);
    request.arrived = arrived(id);
    ASSERT_TRUE(scheduler_->Submit(std::move(request)).ok());
  }
  const auto load = [&] { return scheduler_->load(); };
  EXPECT_EQ(load().awaiting, 3);
  EXPECT_EQ(load().waiting_positions, 60);
  EXPECT_EQ(load().oldest, arrived(1));

  Step({64, 14});  // the first prompt, and four positions of the second
  EXPECT_EQ(load().decoding, 1);
  EXPECT_EQ(load().decoding_kv_tokens, 10);
  EXPECT_EQ(load().awaiting, 2) << "one has its prompt computed, one finds no place";
  EXPECT_EQ(load().waiting_positions, 16 + 30);
  EXPECT_EQ(load().oldest, arrived(2));

  Step({64, 0});
  EXPECT_EQ(load().decoding_kv_tokens, 11);
  scheduler_->Cancel({1, 3, 1});
  EXPECT_EQ(load().waiting_positions, 16);

  Step();
  EXPECT_EQ(load().decoding, 2);
  EXPECT_EQ(load().awaiting, 0);
  EXPECT_FALSE(load().oldest);
  scheduler_->PreemptNewest();
  EXPECT_EQ(load().decoding, 1);
  EXPECT_EQ(load().awaiting, 1);
  EXPECT_EQ(load().waiting_positions, 21) << "its keys are dropped, for want of host memory";
  EXPECT_FALSE(load().oldest) << "it has drawn tokens";
}

TEST_F(SchedulerTest, DecodesOldestFirstThenFillsWithPrompts) {
  MakeScheduler(16, 0);
  Submit(1, 1, 10);
  Submit(2, 1, 10);
  Step();
  Submit(3, 5, 10);
  EXPECT_EQ(Step({4, 64}), (Rows{{1, 1}, {2, 1}, {3, 0}, {3, 1}}));
  EXPECT_EQ(Step({1, 64}), (Rows{{1, 2}})) << "the oldest has the only row";
}

TEST_F(SchedulerTest, WithoutPrefillBudgetNobodyIsAdmitted) {
  MakeScheduler(16, 0);
  Submit(1, 3, 10);
  EXPECT_TRUE(Step({64, 0}).empty());
  EXPECT_EQ(scheduler_->waiting(), 1);
  EXPECT_EQ(cache_->free_pages(), 16);
}

TEST_F(SchedulerTest, KeepsToMaxBatch) {
  MakeScheduler(16, 0, {2, 1000});
  for (uint64_t id = 1; id <= 3; ++id) Submit(id, 1, 2);
  Step();
  EXPECT_EQ(scheduler_->running(), 2);
  EXPECT_EQ(scheduler_->waiting(), 1);
  RunToTheEnd();
  EXPECT_EQ(finished_.size(), 3u);
}

TEST_F(SchedulerTest, ALargeFirstIsNotOvertakenBySmallOnes) {
  MakeScheduler(4, 0);
  Submit(1, 30, 10);  // 2 pages now
  Step();
  Submit(2, 40, 2);  // needs 3: waits
  Submit(3, 1, 2);   // would fit
  Step();
  EXPECT_EQ(scheduler_->waiting(), 2);
  RunToTheEnd();
  EXPECT_EQ(finished_.size(), 3u);
}

TEST_F(SchedulerTest, PreemptsTheNewestToHostMemoryAndBringsItBack) {
  MakeScheduler(3, 3);
  Submit(1, 14, 20);
  Submit(2, 12, 20);
  Submit(3, 10, 20);
  Step();  // a page each
  while (scheduler_->preempted() == 0) ASSERT_FALSE(Step().empty());
  EXPECT_EQ(scheduler_->running(), 2) << "the oldest took the newest's page";
  EXPECT_EQ(scheduler_->swapped(), 1);
  EXPECT_EQ(scheduler_->waiting(), 1);
  RunToTheEnd();
  EXPECT_EQ(scheduler_->swapped(), 0);
  EXPECT_EQ(scheduler_->recomputed(), 0u);
  EXPECT_EQ(tokens_, (std::map<uint64_t, int>{{1, 20}, {2, 20}, {3, 20}}));
  EXPECT_EQ(cache_->free_pages(), 3);
}

TEST_F(SchedulerTest, APreemptedSequenceStaysAwayUntilItsNextRowFits) {
  MakeScheduler(3, 3);
  for (uint64_t id = 1; id <= 3; ++id) Submit(id, 15, 18);  // all need a second page at once
  RunToTheEnd();
  EXPECT_EQ(finished_.size(), 3u);
  EXPECT_LE(scheduler_->preempted(), 4u) << "copied out and in again for nothing";
}

TEST_F(SchedulerTest, APreemptedSequenceComesBackBeforeAnybodyWaitingIsAdmitted) {
  MakeScheduler(3, 3);
  for (uint64_t id = 1; id <= 3; ++id) Submit(id, 14, 20);
  while (scheduler_->preempted() == 0) Step();
  Submit(4, 1, 1);
  while (!finished_.contains(1)) {
    Step();
    EXPECT_FALSE(tokens_.contains(4));
  }
  RunToTheEnd();
  EXPECT_EQ(finished_.size(), 4u);
}

TEST_F(SchedulerTest, ComputesAgainWhatHostMemoryHasNoRoomFor) {
  MakeScheduler(3, 0);
  for (uint64_t id = 1; id <= 3; ++id) Submit(id, 14, 20);
  RunToTheEnd();
  EXPECT_GE(scheduler_->preempted(), 2u);
  EXPECT_GT(scheduler_->recomputed(), 0u);
  EXPECT_EQ(tokens_, (std::map<uint64_t, int>{{1, 20}, {2, 20}, {3, 20}})) << "none is drawn twice";
  EXPECT_EQ(cache_->free_pages(), 3);
}

TEST_F(SchedulerTest, CatchesUpInChunksOfWhichTheLastRowAloneDraws) {
  MakeScheduler(8, 0);
  Submit(1, 3, 20);
  for (int i = 0; i < 5; ++i) Step();  // 5 tokens: positions 0..6 are computed
  scheduler_->PreemptNewest();
  EXPECT_EQ(scheduler_->running(), 0);
  EXPECT_EQ(cache_->free_pages(), 8);
  EXPECT_EQ(scheduler_->After(Batch()).prefill_rows, 8);
  EXPECT_EQ(Step({64, 4}), (Rows{{1, 0}, {1, 1}, {1, 2}, {1, 3}})) << "prompt, then generated";
  EXPECT_EQ(tokens_[1], 5) << "what was drawn is not drawn again";
  EXPECT_EQ(Step({2, 64}), (Rows{{1, 4}, {1, 5}}));
  EXPECT_EQ(Step(), (Rows{{1, 6}, {1, 7}}));
  EXPECT_EQ(tokens_[1], 6);
  EXPECT_EQ(scheduler_->recomputed(), 7u);
  EXPECT_EQ(Step({64, 0}), (Rows{{1, 8}})) << "it decodes again, outside the budget";
}

TEST_F(SchedulerTest, ADroppedSequenceStaysAwayUntilAPageIsLeftForWhoRuns) {
  MakeScheduler(4, 0);
  Submit(1, 14, 40);
  Submit(2, 20, 10);
  Step();
  scheduler_->PreemptNewest();
  Step();
  EXPECT_EQ(scheduler_->running(), 2) << "2 pages, and one is left for the first";
  while (tokens_[1] < 4) Step();  // it has its second page: no page is left
  scheduler_->PreemptNewest();
  Step();
  EXPECT_EQ(scheduler_->running(), 1);
  RunToTheEnd();
  EXPECT_EQ(tokens_, (std::map<uint64_t, int>{{1, 40}, {2, 10}}));
}

TEST_F(SchedulerTest, PreemptsNobodyWhereNobodyRuns) {
  MakeScheduler(4, 0);
  scheduler_->PreemptNewest();
  Submit(1, 3);
  scheduler_->PreemptNewest();
  EXPECT_EQ(scheduler_->preempted(), 0u);
  EXPECT_EQ(scheduler_->waiting(), 1);
}

TEST_F(SchedulerTest, AReplayIsComputedAndGoesOnBehindWhatWasGenerated) {
  MakeScheduler(8, 0);
  Request replay = Make(1, 3, 6);
  replay.generated = {7, 8, 9, 10};
  ASSERT_TRUE(scheduler_->Submit(replay).ok());
  EXPECT_EQ(Step({64, 5}), (Rows{{1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}}));
  EXPECT_EQ(Step(), (Rows{{1, 5}, {1, 6}}));
  EXPECT_EQ(tokens_[1], 1);
  EXPECT_EQ(Step(), (Rows{{1, 7}}));
  EXPECT_EQ(tokens_[1], 2) << "max_tokens counts what was given";
  EXPECT_EQ(finished_[1], FinishReason::kLength);
  EXPECT_EQ(scheduler_->recomputed(), 7u);
  EXPECT_EQ(scheduler_->replayed(), 4u);
}

TEST_F(SchedulerTest, RefusesAReplayThatHasNothingToAdd) {
  MakeScheduler(8, 0, {8, 20});
  Request replay = Make(1, 3, 4);
  replay.generated = {7, 8, 9, 10};
  EXPECT_TRUE(Contains(scheduler_->Submit(replay).message(), "max_tokens is 4"));
  replay.max_tokens = 100;
  replay.stop_tokens = {9};
  EXPECT_TRUE(Contains(scheduler_->Submit(replay).message(), "stop token"));
  replay.ignore_stop_tokens = true;
  EXPECT_TRUE(scheduler_->Submit(replay).ok());
  replay.generated.resize(17, 1);
  EXPECT_TRUE(Contains(scheduler_->Submit(replay).message(), "context of 20"));
  EXPECT_EQ(scheduler_->waiting(), 1);
}

TEST_F(SchedulerTest, PreemptsAPromptInTheMiddleOfItsChunks) {
  MakeScheduler(4, 4);
  Submit(1, 15, 30);
  Step();
  Submit(2, 40, 2);  // 3 pages; 1 will soon need a second one
  Step({2, 1});
  Step({2, 1});
  while (scheduler_->preempted() == 0) ASSERT_FALSE(Step({2, 1}).empty());
  RunToTheEnd();
  EXPECT_EQ(tokens_, (std::map<uint64_t, int>{{1, 30}, {2, 2}}));
}

TEST_F(SchedulerTest, CancelsAnywhere) {
  MakeScheduler(3, 3, {8, 1000});
  for (uint64_t id = 1; id <= 3; ++id) Submit(id, 16 - 2 * static_cast<int>(id), 20);
  while (scheduler_->preempted() == 0) Step();
  Submit(4, 14, 20);
  EXPECT_EQ(scheduler_->waiting(), 2);
  EXPECT_GT(cache_->swap_used(), 0);
  EXPECT_TRUE(scheduler_->Cancel({1, 3, 1}));  // swapped out
  EXPECT_EQ(cache_->swap_used(), 0);
  EXPECT_EQ(scheduler_->waiting(), 1);
  EXPECT_TRUE(scheduler_->Cancel({1, 4, 1}));  // waiting
  EXPECT_EQ(scheduler_->waiting(), 0);
  EXPECT_TRUE(scheduler_->Cancel({1, 1, 1}));  // running
  EXPECT_EQ(scheduler_->running(), 1);
  EXPECT_FALSE(scheduler_->Cancel({1, 9, 1}));  // unknown
  EXPECT_FALSE(scheduler_->Cancel({1, 2, 2}));  // another attempt
  EXPECT_EQ(scheduler_->running(), 1);
  RunToTheEnd();
  EXPECT_EQ(cache_->free_pages(), 3);
}

TEST_F(SchedulerTest, CancelsAStreamAndNoOther) {
  MakeScheduler(8, 8);
  Submit(1, 3);
  Request other = Make(2, 3);
  other.key.stream = 2;
  ASSERT_TRUE(scheduler_->Submit(other).ok());
  Step();
  scheduler_->CancelStream(1);
  EXPECT_EQ(scheduler_->running(), 1);
  RunToTheEnd();
  EXPECT_FALSE(finished_.contains(1));
  EXPECT_TRUE(finished_.contains(2));
}

TEST_F(SchedulerTest, EndsAtAStopTokenUnlessToldNotTo) {
  MakeScheduler(8, 0);
  Request stopping = Make(1, 2, 5);
  stopping.stop_tokens = {3, 7};
  Request going_on = Make(2, 2, 5);
  going_on.stop_tokens = {7};
  going_on.ignore_stop_tokens = true;
  ASSERT_TRUE(scheduler_->Submit(stopping).ok());
  ASSERT_TRUE(scheduler_->Submit(going_on).ok());
  RunToTheEnd();
  EXPECT_EQ(finished_[1], FinishReason::kStop);
  EXPECT_EQ(tokens_[1], 1) << "the stop token itself";
  EXPECT_EQ(finished_[2], FinishReason::kLength);
  EXPECT_EQ(tokens_[2], 5);
}

TEST_F(SchedulerTest, EndsAtTheModelsLength) {
  MakeScheduler(8, 0, {8, 12});
  Submit(1, 9, 100);
  RunToTheEnd();
  EXPECT_EQ(finished_[1], FinishReason::kLength);
  EXPECT_EQ(tokens_[1], 3);
}

TEST_F(SchedulerTest, SaysWhatTheNextStepWouldBring) {
  MakeScheduler(16, 0);
  Submit(1, 10, 5);
  EXPECT_EQ(scheduler_->After(Batch()).prefill_rows, 10);
  Batch batch = scheduler_->FormBatch({64, 4});
  EXPECT_EQ(scheduler_->After(batch).prefill_rows, 6);
  EXPECT_EQ(scheduler_->After(batch).decode_rows, 0);
  scheduler_->MarkComputed(batch);
  batch = scheduler_->FormBatch({64, 64});
  EXPECT_EQ(scheduler_->After(batch).prefill_rows, 0);
  EXPECT_EQ(scheduler_->After(batch).decode_rows, 1);
}

// For any order of events, every accepted request ends exactly once, with its tokens, and all
// memory is freed.
TEST_F(SchedulerTest, EveryRandomScheduleEndsAndFreesAll) {
  const uint64_t seed = TestSeed();
  for (uint64_t round = 0; round < 200; ++round) {
    SCOPED_TRACE("JANUS_SEED=" + std::to_string(seed) + " round " + std::to_string(round));
    Random random(MixSeed(seed, round));
    const int pages = random.Between(3, 8);
    const bool replays = random.Chance(0.5);
    const int swap = random.Chance(0.5) ? 100 : random.Between(0, 4);
    tokens_.clear();
    finished_.clear();
    MakeScheduler(pages, swap, {random.Between(1, 6), 48});
    std::set<uint64_t> cancelled;
    std::map<uint64_t, int> wanted;
    uint64_t next = 1;
    for (int step = 0; next <= 20 || !scheduler_->idle(); ++step) {
      ASSERT_LT(step, 5'000) << "it never ends";
      while (next <= 20 && random.Chance(0.4)) {
        const int prompt = random.Between(1, 30);
        wanted[next] = random.Between(1, 48 - prompt);
        Request request = Make(next, prompt, wanted[next]);
        if (replays && random.Chance(0.5)) {
          request.generated.resize(static_cast<size_t>(random.Between(0, wanted[next] - 1)), 7);
        }
        wanted[next] -= static_cast<int>(request.generated.size());
        ASSERT_TRUE(scheduler_->Submit(request).ok());
        ++next;
      }
      if (next > 1 && random.Chance(0.05)) {
        const auto id = static_cast<uint64_t>(random.Between(1, static_cast<int>(next) - 1));
        if (!finished_.contains(id)) cancelled.insert(id);
        scheduler_->Cancel({1, id, 1});
      }
      if (random.Chance(0.05)) scheduler_->PreemptNewest();
      Step({random.Between(1, 24), random.Between(0, 16)});
      const Scheduler::Load load = scheduler_->load();
      ASSERT_EQ(load.decoding + load.awaiting, scheduler_->running() + scheduler_->waiting());
      ASSERT_GE(load.waiting_positions, 0);
      ASSERT_FALSE(HasFailure());
    }
    EXPECT_EQ(cache_->free_pages(), pages);
    EXPECT_EQ(scheduler_->load().waiting_positions, 0);
    if (swap == 100 && !replays) {
      EXPECT_EQ(scheduler_->recomputed(), 0u) << "host memory had room";
    }
    for (uint64_t id = 1; id < next; ++id) {
      if (cancelled.contains(id)) continue;
      EXPECT_EQ(finished_[id], FinishReason::kLength) << id;
      EXPECT_EQ(tokens_[id], wanted[id]) << id;
    }
  }
}

}  // namespace
}  // namespace janus::dataplane
