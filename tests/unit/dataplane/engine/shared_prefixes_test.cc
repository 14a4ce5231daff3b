#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "common/fingerprint.h"
#include "dataplane/engine/scheduler.h"
#include "tests/support/random.h"

namespace janus::dataplane {
namespace {

constexpr int kPage = kernels::kPageTokens;

// A scheduler on a cache of so many pages, and a stand-in for the model. The key of a position is a
// hash of all tokens up to it. Each step checks that the keys before its rows are those of its
// sequence, whichever sequence computed them.
class SharedPrefixes : public testing::Test {
 protected:
  using Key = uint64_t;
  static constexpr int64_t kPageBytes = kPage * int64_t{sizeof(Key)};

  void MakeScheduler(int pages, int swap_pages, PrefixRule rule, int max_batch = 8,
                     int host_pages = 0, int copies = 0) {
    KvPagePoolOptions cache;
    cache.layers = 1;
    cache.page_bytes = kPageBytes;
    cache.bytes = kPageBytes * pages;
    cache.swap_bytes = kPageBytes * swap_pages;
    cache.prefix_host_bytes = kPageBytes * host_pages;
    cache.prefix_copies = copies;
    cache.log = Logger(2, LogLevel::kError);
    cache_ = std::move(*KvPagePool::Create(cache));
    scheduler_.emplace(SchedulerOptions{max_batch, 1000}, *cache_);
    scheduler_->SharePrefixes(rule);
    rule_ = rule;
    tokens_.clear();
    finished_.clear();
  }

  static std::vector<int32_t> Tokens(int count, int32_t first = 0) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(first + i);
    return tokens;
  }
  static Request Make(uint64_t id, std::vector<int32_t> prompt, int max_tokens = 1) {
    Request request;
    request.key = {1, id, 1};
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    return request;
  }
  void Submit(Request request) { ASSERT_TRUE(scheduler_->Submit(std::move(request)).ok()); }

  // Where the key of a position lies.
  Key* KeyAt(const Sequence& sequence, int position) const {
    auto* const page =
        cache_->Layer(0) + sequence.pages[static_cast<size_t>(position / kPage)] * kPageBytes;
    return reinterpret_cast<Key*>(page) + position % kPage;
  }
  // With the classes, unless both are computed alike.
  std::vector<Key> KeysOf(const Sequence& sequence, int count) const {
    std::vector<Key> keys;
    Fingerprint hash;
    for (int i = 0; i < count; ++i) {
      hash.Mix(static_cast<uint64_t>(sequence.tokens[static_cast<size_t>(i)]));
      if (rule_ == PrefixRule::kPrompts) hash.Mix(static_cast<uint64_t>(sequence.ClassOf(i)));
      keys.push_back(hash.value());
    }
    return keys;
  }

  // One step. Returns how many rows each request had.
  std::map<uint64_t, int> Step(BatchLimits limits = {64, 64}) {
    const Batch batch = scheduler_->FormBatch(limits);
    std::map<uint64_t, int> rows;
    std::set<int32_t> written;  // pages, by one sequence each
    const Sequence* last = nullptr;
    for (const BatchRow& row : batch.rows) {
      const Sequence& sequence = *row.sequence;
      const std::vector<Key> keys = KeysOf(sequence, row.position + 1);
      if (&sequence != last) {
        EXPECT_EQ(row.position, sequence.computed);
        EXPECT_TRUE(written.insert(PageOf(row)).second) << "two write page " << PageOf(row);
      } else if (row.position % kPage == 0) {
        EXPECT_TRUE(written.insert(PageOf(row)).second) << "two write page " << PageOf(row);
      }
      for (int i = 0; i < row.position; ++i) {
        EXPECT_EQ(*KeyAt(sequence, i), keys[static_cast<size_t>(i)])
            << "position " << i << " of request " << sequence.request.key.id;
      }
      *KeyAt(sequence, row.position) = keys.back();
      last = &sequence;
      ++rows[sequence.request.key.id];
    }
    scheduler_->MarkComputed(batch);
    std::vector<Sequence*> drawing;
    for (const BatchRow& row : batch.rows) {
      if (row.last) drawing.push_back(row.sequence);
    }
    for (Sequence* const sequence : drawing) {
      const uint64_t id = sequence->request.key.id;
      const auto token = static_cast<int32_t>(sequence->tokens.size() % 5);
      cached_[id] = sequence->cached;
      tokens_[id].push_back(token);
      if (scheduler_->Append(*sequence, token) == FinishReason::kNone) continue;
      finished_.insert(id);
      scheduler_->Remove(*sequence);
    }
    return rows;
  }
  static int32_t PageOf(const BatchRow& row) {
    return row.sequence->pages[static_cast<size_t>(row.position / kPage)];
  }
  // Runs until nothing is left; returns how many rows each request had.
  std::map<uint64_t, int> RunToTheEnd(BatchLimits limits = {64, 64}) {
    std::map<uint64_t, int> rows;
    for (int step = 0; !scheduler_->idle(); ++step) {
      EXPECT_LT(step, 10'000) << "it never ends";
      if (step == 10'000) break;
      for (const auto& [id, count] : Step(limits)) rows[id] += count;
    }
    return rows;
  }

  std::unique_ptr<KvPagePool> cache_;
  std::optional<Scheduler> scheduler_;
  PrefixRule rule_ = PrefixRule::kNone;
  std::map<uint64_t, std::vector<int32_t>> tokens_;
  std::map<uint64_t, int> cached_;
  std::set<uint64_t> finished_;
};

TEST_F(SharedPrefixes, ALaterRequestStartsBehindTheLongestKnownPrefix) {
  MakeScheduler(16, 0, PrefixRule::kAll);
  Submit(Make(1, Tokens(40)));
  EXPECT_EQ(RunToTheEnd()[1], 40);
  std::vector<int32_t> other = Tokens(50);
  other[20] = 99;  // in the second page
  Submit(Make(2, Tokens(50)));
  Submit(Make(3, other));
  const auto rows = RunToTheEnd();
  EXPECT_EQ(rows.at(2), 50 - 2 * kPage);
  EXPECT_EQ(rows.at(3), 50 - kPage);
  EXPECT_EQ(cached_, (std::map<uint64_t, int>{{1, 0}, {2, 2 * kPage}, {3, kPage}}));
  EXPECT_EQ(scheduler_->cached(), 3u * kPage);
  EXPECT_EQ(cache_->free_pages(), 16);
}

TEST_F(SharedPrefixes, TheLastPositionIsAlwaysComputed) {
  MakeScheduler(16, 0, PrefixRule::kAll);
  Submit(Make(1, Tokens(2 * kPage)));
  RunToTheEnd();
  Submit(Make(2, Tokens(2 * kPage)));
  EXPECT_EQ(RunToTheEnd()[2], kPage);
  EXPECT_EQ(tokens_[1], tokens_[2]);
}

TEST_F(SharedPrefixes, TheNextTurnReusesTheAnswerOnlyIfItsPositionsAreComputedAlike) {
  for (const PrefixRule rule : {PrefixRule::kAll, PrefixRule::kPrompts}) {
    MakeScheduler(16, 0, rule);
    Submit(Make(1, Tokens(20), 20));
    RunToTheEnd();
    std::vector<int32_t> next = Tokens(20);
    next.insert(next.end(), tokens_[1].begin(), tokens_[1].end());
    next.push_back(3);
    Submit(Make(2, next));
    EXPECT_EQ(RunToTheEnd()[2], 41 - (rule == PrefixRule::kAll ? 2 : 1) * kPage);
  }
}

TEST_F(SharedPrefixes, NothingIsSharedUnlessTheServiceWantsIt) {
  MakeScheduler(16, 0, PrefixRule::kNone);
  for (uint64_t id = 1; id <= 2; ++id) {
    Submit(Make(id, Tokens(40)));
    EXPECT_EQ(RunToTheEnd()[id], 40);
  }
  EXPECT_EQ(cache_->kept_pages(), 0);
}

TEST_F(SharedPrefixes, ARequestThatScoresItsPromptComputesAllOfIt) {
  MakeScheduler(16, 0, PrefixRule::kAll);
  Submit(Make(1, Tokens(40)));
  RunToTheEnd();
  Request scoring = Make(2, Tokens(40));
  scoring.prompt_logprobs = 0;
  Submit(scoring);
  EXPECT_EQ(RunToTheEnd()[2], 40);
}

TEST_F(SharedPrefixes, ARequestThatReportsExpertsComputesAllPositionsFromThere) {
  MakeScheduler(16, 0, PrefixRule::kAll);
  Submit(Make(1, Tokens(3 * kPage + 1)));
  RunToTheEnd();
  for (const auto& [from, computed] :
       {std::pair{0, 3 * kPage + 1}, std::pair{1, 3 * kPage + 1},
        std::pair{kPage - 1, 3 * kPage + 1}, std::pair{kPage, 2 * kPage + 1},
        std::pair{2 * kPage + 5, kPage + 1}, std::pair{3 * kPage, 1}}) {
    Request reporting = Make(static_cast<uint64_t>(from) + 2, Tokens(3 * kPage + 1));
    reporting.routed_from = from;
    Submit(reporting);
    EXPECT_EQ(RunToTheEnd()[reporting.key.id], computed) << from;
  }
}

TEST_F(SharedPrefixes, WhatArrivesTogetherIsComputedOnce) {
  MakeScheduler(64, 0, PrefixRule::kAll, 16);
  for (uint64_t id = 1; id <= 16; ++id) {
    std::vector<int32_t> prompt = Tokens(6 * kPage);
    prompt.push_back(static_cast<int32_t>(id));
    Submit(Make(id, prompt));
  }
  const auto rows = RunToTheEnd({64, 40});
  EXPECT_EQ(rows.at(1), 6 * kPage + 1);
  for (uint64_t id = 2; id <= 16; ++id) EXPECT_EQ(rows.at(id), 1) << id;
}

TEST_F(SharedPrefixes, ASharedPositionCountsOnceInTheCacheAndForEachThatReadsIt) {
  MakeScheduler(64, 0, PrefixRule::kAll);
  Submit(Make(1, Tokens(2 * kPage + 1), 10));
  Step();
  Submit(Make(2, Tokens(2 * kPage + 1), 10));
  Step();
  EXPECT_EQ(scheduler_->keys(), 2 * kPage + 2 + 2 * kPage + 1);
  EXPECT_EQ(scheduler_->kv_tokens(), scheduler_->keys() - 2 * kPage);
  RunToTheEnd();
  EXPECT_EQ(scheduler_->kv_tokens(), 0);
}

TEST_F(SharedPrefixes, ANewerRequestDoesNotWaitForOneThatLeft) {
  MakeScheduler(64, 0, PrefixRule::kAll);
  Submit(Make(1, Tokens(100)));
  Submit(Make(2, Tokens(100)));
  EXPECT_EQ(Step({64, 20}), (std::map<uint64_t, int>{{1, 20}}));
  scheduler_->Cancel({1, 1, 1});
  EXPECT_EQ(RunToTheEnd()[2], 100 - kPage);
}

TEST_F(SharedPrefixes, OtherRequestsGoOnWhileOneWaitsForAPage) {
  MakeScheduler(64, 0, PrefixRule::kAll);
  Submit(Make(1, Tokens(40)));
  Submit(Make(2, Tokens(40)));
  Submit(Make(3, Tokens(30, 500)));
  EXPECT_EQ(Step({64, 60}), (std::map<uint64_t, int>{{1, 40}, {3, 20}}));
}

TEST_F(SharedPrefixes, PagesWithoutAUserAreOverwrittenTheOldestFirst) {
  MakeScheduler(6, 0, PrefixRule::kAll);
  Submit(Make(1, Tokens(2 * kPage + 1, 100)));
  RunToTheEnd();
  Submit(Make(2, Tokens(2 * kPage + 1, 200)));
  RunToTheEnd();
  EXPECT_EQ(cache_->kept_pages(), 4);
  EXPECT_EQ(cache_->free_pages(), 6);
  Submit(Make(3, Tokens(2 * kPage + 1, 300)));  // takes the two others and one of the first's
  RunToTheEnd();
  Submit(Make(4, Tokens(2 * kPage + 1, 200)));
  EXPECT_EQ(RunToTheEnd()[4], 1) << "the newer one is still there";
  Submit(Make(5, Tokens(2 * kPage + 1, 100)));
  EXPECT_EQ(RunToTheEnd()[5], kPage + 1) << "of the older one, the last page went first";
}

TEST_F(SharedPrefixes, WhatIsOverwrittenComesBackFromHostMemory) {
  MakeScheduler(6, 0, PrefixRule::kAll, 8, 16);
  for (uint64_t id = 1; id <= 4; ++id) {
    Submit(Make(id, Tokens(4 * kPage + 1, static_cast<int32_t>(100 * id))));
    EXPECT_EQ(RunToTheEnd()[id], 4 * kPage + 1);
  }
  EXPECT_EQ(scheduler_->cached_in_host(), 0u);
  EXPECT_EQ(cache_->prefix_host_used(), 12 * kPageBytes);
  for (uint64_t id = 1; id <= 4; ++id) {
    Submit(Make(id + 10, Tokens(4 * kPage + 1, static_cast<int32_t>(100 * id))));
    EXPECT_EQ(RunToTheEnd()[id + 10], 1) << id;
    EXPECT_EQ(cached_[id + 10], 4 * kPage);
  }
  EXPECT_EQ(scheduler_->cached_in_host(), 4u * 4 * kPage);
  EXPECT_EQ(cache_->free_pages(), 6);
}

TEST_F(SharedPrefixes, HostMemoryThatIsFullLosesTheOldestPrefixFromItsEnd) {
  MakeScheduler(4, 0, PrefixRule::kAll, 8, 5);
  for (int32_t text = 1; text <= 3; ++text) {
    Submit(Make(static_cast<uint64_t>(text), Tokens(3 * kPage + 1, 100 * text)));
    RunToTheEnd();
  }
  // Here are all pages of the third text. Of six others host memory keeps five.
  EXPECT_EQ(cache_->prefix_host_used(), 5 * kPageBytes);
  Submit(Make(11, Tokens(3 * kPage + 1, 100)));
  EXPECT_EQ(RunToTheEnd()[11], kPage + 1) << "its last page was the first to be overwritten";
}

TEST_F(SharedPrefixes, AStepMakesNoMoreThanItsCopiesAndOtherRequestsGoOnMeanwhile) {
  MakeScheduler(12, 0, PrefixRule::kAll, 8, 16, 1);
  Submit(Make(1, Tokens(4 * kPage + 1)));
  RunToTheEnd();
  Submit(Make(5, Tokens(kPage / 2, 900), 6));  // its steps copy the first one's pages
  RunToTheEnd();
  Submit(Make(2, Tokens(12 * kPage - 1, 500)));  // overwrites all of them
  RunToTheEnd({400, 400});
  Submit(Make(3, Tokens(kPage / 2, 900), 16));
  Step();
  const uint64_t before = scheduler_->cached_in_host();
  Submit(Make(4, Tokens(4 * kPage + 1)));
  std::map<uint64_t, int> rows;
  uint64_t came = before;
  int steps = 0;
  for (; !rows.contains(4); ++steps) {
    ASSERT_LT(steps, 12);
    rows = Step();
    EXPECT_EQ(rows[3], 1) << "it decodes in every step";
    if (rows[4] == 0) rows.erase(4);
    EXPECT_LE(scheduler_->cached_in_host(), came + kPage);
    came = scheduler_->cached_in_host();
  }
  EXPECT_GE(steps, 4);
  EXPECT_EQ(came, before + 4 * kPage);
  RunToTheEnd();
}

TEST_F(SharedPrefixes, PagesAreCopiedAheadOfTheRequestThatOverwritesThem) {
  MakeScheduler(12, 0, PrefixRule::kAll, 8, 16, 1);
  Submit(Make(1, Tokens(8 * kPage + 1)));
  RunToTheEnd();
  // Steps of a short request have all their copies left.
  Submit(Make(2, Tokens(4, 500), 12));
  RunToTheEnd();
  EXPECT_GE(cache_->prefix_host_used(), 8 * kPageBytes);
  // It overwrites all of them in one step.
  Submit(Make(3, Tokens(11 * kPage, 700)));
  RunToTheEnd({400, 400});
  Submit(Make(4, Tokens(8 * kPage + 1)));
  EXPECT_EQ(RunToTheEnd()[4], 1);
}

TEST_F(SharedPrefixes, APrefixThatIsComputedThoughHostMemoryHoldsItIsKnownOnce) {
  MakeScheduler(6, 0, PrefixRule::kAll, 8, 16);
  Submit(Make(1, Tokens(4 * kPage + 1)));
  RunToTheEnd();
  Submit(Make(2, Tokens(5 * kPage + 1, 500)));
  RunToTheEnd();
  Request scoring = Make(3, Tokens(4 * kPage + 1));
  scoring.prompt_logprobs = 0;
  Submit(scoring);
  EXPECT_EQ(RunToTheEnd()[3], 4 * kPage + 1);
  const uint64_t before = scheduler_->cached_in_host();
  Submit(Make(4, Tokens(4 * kPage + 1)));
  EXPECT_EQ(RunToTheEnd()[4], 1);
  EXPECT_EQ(scheduler_->cached_in_host(), before) << "it was here";
}

TEST_F(SharedPrefixes, AnotherRuleForgetsWhatHostMemoryHolds) {
  MakeScheduler(4, 0, PrefixRule::kAll, 8, 16);
  Submit(Make(1, Tokens(40)));
  RunToTheEnd();
  Submit(Make(2, Tokens(50, 500)));
  RunToTheEnd();
  EXPECT_GT(cache_->prefix_host_used(), 0);
  scheduler_->SharePrefixes(PrefixRule::kPrompts);
  EXPECT_EQ(cache_->prefix_host_used(), 0);
  rule_ = PrefixRule::kPrompts;
  Submit(Make(3, Tokens(40)));
  EXPECT_EQ(RunToTheEnd()[3], 40);
}

TEST_F(SharedPrefixes, AnotherRuleForgetsWhatWasPublished) {
  MakeScheduler(16, 0, PrefixRule::kAll);
  Submit(Make(1, Tokens(40)));
  RunToTheEnd();
  scheduler_->SharePrefixes(PrefixRule::kPrompts);
  EXPECT_EQ(cache_->kept_pages(), 0);
  rule_ = PrefixRule::kPrompts;
  Submit(Make(2, Tokens(40)));
  EXPECT_EQ(RunToTheEnd()[2], 40);
}

TEST_F(SharedPrefixes, ADroppedSequenceFindsItsOwnPagesAgain) {
  MakeScheduler(16, 0, PrefixRule::kAll);
  Submit(Make(1, Tokens(40), 20));
  Step();
  Step();
  scheduler_->PreemptNewest();
  EXPECT_EQ(Step()[1], 42 - 2 * kPage);
  EXPECT_EQ(cached_[1], 0) << "its client had no use of another's work";
  RunToTheEnd();
  EXPECT_EQ(tokens_[1].size(), 20u);
}

// For any order of events, all keys are those of the sequence, every request ends with its tokens,
// and all memory is freed. Prompts are cut from two texts, so many share a prefix.
TEST_F(SharedPrefixes, EveryRandomScheduleReadsItsOwnKeys) {
  const uint64_t seed = TestSeed();
  uint64_t cached = 0, cached_in_host = 0;
  for (uint64_t round = 0; round < 200; ++round) {
    SCOPED_TRACE("JANUS_SEED=" + std::to_string(seed) + " round " + std::to_string(round));
    Random random(MixSeed(seed, round));
    const int swap = random.Chance(0.5) ? 100 : random.Between(0, 4);
    MakeScheduler(
        random.Between(7, 14), swap, random.Chance(0.5) ? PrefixRule::kAll : PrefixRule::kPrompts,
        random.Between(1, 6), random.Chance(0.7) ? random.Between(1, 20) : 0, random.Between(0, 3));
    std::set<uint64_t> cancelled;
    std::map<uint64_t, size_t> wanted;
    uint64_t next = 1;
    for (int step = 0; next <= 20 || !scheduler_->idle(); ++step) {
      ASSERT_LT(step, 5'000) << "it never ends";
      if (next <= 20 && random.Chance(0.4)) {
        const uint64_t id = next++;
        Request request = Make(id, Tokens(random.Between(1, 70), random.Chance(0.7) ? 0 : 100),
                               random.Between(1, 30));
        if (random.Chance(0.2)) {
          request.generated.assign(static_cast<size_t>(random.Between(0, request.max_tokens - 1)),
                                   2);
        }
        if (random.Chance(0.1)) request.prompt_logprobs = 0;
        if (random.Chance(0.1)) request.routed_from = random.Between(0, 30);
        wanted[id] = static_cast<size_t>(request.max_tokens) - request.generated.size();
        Submit(std::move(request));
      }
      if (next > 1 && random.Chance(0.05)) {
        const auto id = static_cast<uint64_t>(random.Between(1, static_cast<int>(next) - 1));
        if (scheduler_->Cancel({1, id, 1})) cancelled.insert(id);
      }
      if (random.Chance(0.1)) scheduler_->PreemptNewest();
      Step({random.Between(1, 40), random.Between(1, 40)});
      ASSERT_FALSE(HasFailure());
    }
    for (const auto& [id, count] : wanted) {
      if (!cancelled.contains(id)) {
        EXPECT_EQ(tokens_[id].size(), count) << id;
      }
    }
    EXPECT_EQ(cache_->free_pages(), cache_->num_pages());
    EXPECT_EQ(cache_->swap_used(), 0);
    cached += scheduler_->cached();
    cached_in_host += scheduler_->cached_in_host();
  }
  EXPECT_GT(cached, 1000u);
  EXPECT_GT(cached_in_host, 1000u);
}

}  // namespace
}  // namespace janus::dataplane
