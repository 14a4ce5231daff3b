#include "dataplane/experts/routing_record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "tests/support/random.h"

namespace janus::dataplane {
namespace {

constexpr int kLayers = 5, kExperts = 12, kTopK = 3;

RoutingRecord::Epoch EpochOf(uint64_t number, int rank, int instances) {
  return {number, kLayers, kExperts, kTopK, rank, instances, 4096};
}

MonotonicTime At(double seconds) {
  return MonotonicTime() + std::chrono::duration_cast<MonotonicTime::duration>(Seconds(seconds));
}

RoundKey KeyOf(uint64_t epoch, uint64_t step, int layer, int micro_batch = 0) {
  RoundKey key;
  key.epoch = epoch;
  key.step = step;
  key.layer = static_cast<uint16_t>(layer);
  key.micro_batch = static_cast<uint8_t>(micro_batch);
  return key;
}

// Ids as a gate gives them: distinct within a row.
std::vector<uint16_t> RandomIds(Random& random, int rows) {
  std::vector<uint16_t> out;
  std::vector<uint16_t> all(kExperts);
  std::iota(all.begin(), all.end(), uint16_t{0});
  for (int row = 0; row < rows; ++row) {
    for (int k = 0; k < kTopK; ++k) {
      std::swap(all[static_cast<size_t>(k)],
                all[static_cast<size_t>(k) + random.Next() % static_cast<size_t>(kExperts - k)]);
      out.push_back(all[static_cast<size_t>(k)]);
    }
  }
  return out;
}

// A service's expert instances, which all see the same rounds, and an independent count.
class Instances {
 public:
  explicit Instances(int n) : records_(static_cast<size_t>(n)) {}

  void Enter(uint64_t epoch, const std::vector<int>& who) {
    epoch_ = epoch;
    who_ = who;
    for (size_t rank = 0; rank < who.size(); ++rank) {
      records_[static_cast<size_t>(who[rank])].Enter(
          EpochOf(epoch, static_cast<int>(rank), static_cast<int>(who.size())));
    }
  }
  // `ends`: false gives the step up in layer 3.
  void Step(Random& random, uint64_t step, double now, bool ends = true) {
    for (const int i : who_) records_[static_cast<size_t>(i)].BeginStep();
    for (int layer = 0; layer < (ends ? kLayers : 3); ++layer) {
      for (int b = 0; b < 2; ++b) {
        const std::vector<uint16_t> ids = RandomIds(random, static_cast<int>(random.Next() % 5));
        for (const int i : who_) {
          records_[static_cast<size_t>(i)].Add(KeyOf(epoch_, step, layer, b), ids, At(now));
        }
        if (!ends) continue;
        if (!ids.empty()) told_[{epoch_, step, layer, b}] = ids;
        rows_[layer] += ids.size() / kTopK;
        for (const uint16_t id : ids) ++tokens_[{layer, id}];
      }
    }
    if (!ends) return;
    for (const int i : who_) records_[static_cast<size_t>(i)].EndStep();
  }
  RoutingStatistics Joined(const std::vector<int>& who) const {
    RoutingStatistics all;
    for (const int i : who) {
      EXPECT_TRUE(JoinRouting(records_[static_cast<size_t>(i)].Read(true, 1000), all));
    }
    return all;
  }
  void ExpectExact(const RoutingStatistics& joined) const {
    ASSERT_EQ(joined.popularity.size(), static_cast<size_t>(kLayers));
    for (int layer = 0; layer < kLayers; ++layer) {
      const LayerPopularity& one = joined.popularity[static_cast<size_t>(layer)];
      EXPECT_EQ(one.layer, layer);
      EXPECT_EQ(one.rows, rows_.at(layer));
      ASSERT_EQ(one.tokens.size(), static_cast<size_t>(kExperts));
      for (uint16_t e = 0; e < kExperts; ++e) {
        const auto counted = tokens_.find({layer, e});
        EXPECT_EQ(one.tokens[e], counted == tokens_.end() ? 0u : counted->second)
            << "layer " << layer << " expert " << e;
      }
    }
    // Sampled rounds are complete, come from steps that ended, and occur once.
    std::set<Round> seen;
    for (const RoutedRound& round : joined.rounds) {
      const Round key{round.epoch, round.step, round.layer, round.micro_batch};
      EXPECT_TRUE(seen.insert(key).second);
      ASSERT_TRUE(told_.contains(key));
      EXPECT_EQ(round.experts, told_.at(key));
      EXPECT_EQ(round.top_k, kTopK);
    }
  }
  RoutingRecord& of(int i) { return records_[static_cast<size_t>(i)]; }

 private:
  using Round = std::tuple<uint64_t, uint64_t, int, int>;
  std::vector<RoutingRecord> records_;
  std::vector<int> who_;
  uint64_t epoch_ = 0;
  std::map<Round, std::vector<uint16_t>> told_;
  std::map<int, uint64_t> rows_;
  std::map<std::pair<int, uint16_t>, uint64_t> tokens_;
};

TEST(RoutingRecord, InstancesTogetherCountEachRowOnceHoweverManyThereAre) {
  for (const int n : {1, 2, 3, 5, 7}) {
    Random random(static_cast<uint64_t>(n));
    Instances instances(n);
    std::vector<int> all(static_cast<size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    instances.Enter(4, all);
    for (uint64_t step = 1; step <= 40; ++step) {
      instances.Step(random, step, static_cast<double>(step));
    }
    const RoutingStatistics joined = instances.Joined(all);
    instances.ExpectExact(joined);
    std::set<int> layers;
    for (const RoutedRound& round : joined.rounds) layers.insert(round.layer);
    EXPECT_EQ(layers.size(), static_cast<size_t>(kLayers)) << "layers take turns, n = " << n;
  }
}

TEST(RoutingRecord, CountsOnOverEpochsOfOtherMembers) {
  Random random(MixSeed(TestSeed(), 11));
  Instances instances(4);
  uint64_t step = 0;
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      ++step;
      instances.Step(random, step, static_cast<double>(step));
    }
  };
  instances.Enter(1, {0, 1});
  run(7);
  instances.Enter(2, {1, 0, 2, 3});  // with different ranks
  run(9);
  instances.Enter(5, {3, 1});
  run(4);
  // Instances that have left but still live keep their counts.
  instances.ExpectExact(instances.Joined({0, 1, 2, 3}));
}

TEST(RoutingRecord, OfAStepThatIsGivenUpNothingStays) {
  Random random(MixSeed(TestSeed(), 12));
  Instances instances(2);
  instances.Enter(1, {0, 1});
  for (uint64_t step = 1; step <= 30; ++step) {
    instances.Step(random, step, static_cast<double>(step), step % 3 != 0);
  }
  instances.ExpectExact(instances.Joined({0, 1}));
  // A step that the end of an epoch gives up does not count either.
  instances.Step(random, 31, 31, false);
  instances.Enter(2, {1});
  instances.of(1).EndStep();
  instances.ExpectExact(instances.Joined({0, 1}));
}

TEST(RoutingRecord, SamplesOneRoundASecondAndKeepsTheNewestThatFit) {
  RoutingRecord::Limits limits;
  limits.ids = 20 * kTopK;
  limits.rounds = 6;
  limits.between = Seconds(2);
  RoutingRecord record(limits);
  record.Enter(EpochOf(1, 0, 1));
  Random random(MixSeed(TestSeed(), 13));
  std::map<uint64_t, std::vector<uint16_t>> told;
  for (uint64_t step = 1; step <= 500; ++step) {
    const int rows = 1 + static_cast<int>(random.Next() % 8);
    record.BeginStep();
    for (int layer = 0; layer < kLayers; ++layer) {
      const std::vector<uint16_t> ids = RandomIds(random, rows);
      record.Add(KeyOf(1, step, layer), ids, At(static_cast<double>(step) * 0.5));
      if (static_cast<uint64_t>(layer) == (step - 1) / 4 % kLayers) told[step] = ids;
    }
    record.EndStep();
    const RoutingStatistics now = record.Read(false, 1000);
    EXPECT_TRUE(now.popularity.empty());
    // Every fourth step is two seconds after the last sample.
    const uint64_t taken = (step + 3) / 4;
    ASSERT_LE(now.rounds.size(), std::min<uint64_t>(limits.rounds, taken));
    size_t ids = 0;
    for (size_t i = 0; i < now.rounds.size(); ++i) {
      const RoutedRound& round = now.rounds[i];
      const uint64_t want = (taken - now.rounds.size() + i) * 4 + 1;
      ASSERT_EQ(round.step, want) << "the newest, oldest first";
      EXPECT_EQ(round.experts, told.at(want));
      ids += round.experts.size();
    }
    EXPECT_LE(ids, limits.ids);
    if (now.rounds.size() < std::min<uint64_t>(limits.rounds, taken)) {
      const size_t next = told.at((taken - now.rounds.size() - 1) * 4 + 1).size();
      EXPECT_GT(ids + next, limits.ids) << "one more would have had room";
    }
  }
  const RoutingStatistics newest = record.Read(true, 2);
  ASSERT_EQ(newest.rounds.size(), 2u);
  EXPECT_EQ(newest.rounds[1].step, 497u);
}

TEST(RoutingRecord, ARoundLargerThanAllTheRoomIsCountedAndLeftOut) {
  RoutingRecord::Limits limits;
  limits.ids = 4 * kTopK;
  RoutingRecord record(limits);
  record.Enter(EpochOf(1, 0, 1));
  Random random(14);
  for (uint64_t step = 1; step <= 10; ++step) {
    record.BeginStep();
    const std::vector<uint16_t> ids = RandomIds(random, step % 2 == 0 ? 5 : 4);
    for (int layer = 0; layer < kLayers; ++layer) {
      record.Add(KeyOf(1, step, layer), ids, At(static_cast<double>(step)));
    }
    record.EndStep();
  }
  const RoutingStatistics now = record.Read(true, 100);
  EXPECT_EQ(now.rounds_too_large, 5u);
  EXPECT_EQ(now.rounds.size(), 1u);
  EXPECT_EQ(now.popularity[0].rows, 45u);
}

TEST(RoutingRecord, WhoWasNeverOfAnEpochHasNothingToTell) {
  const RoutingRecord record;
  EXPECT_EQ(record.Read(true, 100), RoutingStatistics());
}

TEST(RoutingRecord, IsReadWhileStepsRun) {
  RoutingRecord record;
  record.Enter(EpochOf(1, 0, 1));
  std::jthread steps([&](const std::stop_token& stop) {
    Random random(15);
    for (uint64_t step = 1; !stop.stop_requested(); ++step) {
      record.BeginStep();
      for (int layer = 0; layer < kLayers; ++layer) {
        record.Add(KeyOf(1, step, layer), RandomIds(random, 4), At(static_cast<double>(step)));
      }
      record.EndStep();
    }
  });
  uint64_t rows = 0;
  while (rows < 4000) {
    const RoutingStatistics now = record.Read(true, 8);
    EXPECT_LE(now.rounds.size(), 8u);
    for (const LayerPopularity& one : now.popularity) {
      EXPECT_EQ(std::accumulate(one.tokens.begin(), one.tokens.end(), uint64_t{0}),
                one.rows * kTopK);
    }
    if (!now.popularity.empty()) rows = now.popularity[0].rows;
  }
}

TEST(JoinedRouting, LayersOfAnotherModelAreNotAdded) {
  RoutingStatistics all;
  EXPECT_TRUE(JoinRouting({{{3, 2, {1, 1}}}, {}, 1}, all));
  EXPECT_FALSE(JoinRouting({{{3, 2, {1, 1, 0}}, {1, 4, {4, 0}}}, {}, 2}, all));
  EXPECT_EQ(all, (RoutingStatistics{{{1, 4, {4, 0}}, {3, 2, {1, 1}}}, {}, 3}));
}

}  // namespace
}  // namespace janus::dataplane
