// A step that is given up: its cost, what it must not change, and when it ends the epoch.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/integration/faults/served.h"
#include "tests/support/contains.h"
#include "tests/support/passing_transport.h"
#include "tests/support/random.h"
#include "tests/support/schedule.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {
namespace {

constexpr PeerId kAttention0{Role::kAttention, Rank{0}};
constexpr PeerId kAttention1{Role::kAttention, Rank{1}};
constexpr PeerId kExperts1{Role::kExperts, Rank{1}};

// Blocks a member at a message, like a process without CPU time, until LetGo.
class Halt {
 public:
  // Wraps the transport of `member`: it blocks at its message number `message` among these.
  LoopbackCluster::WrapTransport At(PeerId member, int message,
                                    std::function<bool(const Header&)> among) {
    return [this, member, message, among](PeerId self, std::unique_ptr<Transport> inner) {
      if (self != member) return inner;
      return std::unique_ptr<Transport>(
          std::make_unique<Halting>(std::move(inner), *this, message, among));
    };
  }
  void LetGo() {
    const std::lock_guard lock(mu_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  class Halting final : public PassingTransport {
   public:
    Halting(std::unique_ptr<Transport> inner, Halt& halt, int message,
            std::function<bool(const Header&)> among)
        : PassingTransport(std::move(inner)),
          halt_(halt),
          left_(message),
          among_(std::move(among)) {}
    Status Post(int slot, const Header& header) override {
      if (among_(header) && left_-- == 0) halt_.Stand();
      return PassingTransport::Post(slot, header);
    }

   private:
    Halt& halt_;
    int left_;
    const std::function<bool(const Header&)> among_;
  };

  void Stand() {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [&] { return open_; });
  }

  std::mutex mu_;
  std::condition_variable changed_;
  bool open_ = false;
};

bool IsRows(const Header& header) {
  return header.kind == MessageKind::kRows;
}
bool IsContributions(const Header& header) {
  return header.kind == MessageKind::kContributions;
}

// Waits until a member has counted a missed round.
void AwaitMissedRound(LoopbackCluster& cluster) {
  uint64_t missed = 0;
  const MonotonicTime end = MonotonicClock::now() + Scaled(std::chrono::seconds(30));
  while (missed == 0) {
    JANUS_CHECK(MonotonicClock::now() < end, "nobody counts the round");
    std::this_thread::yield();
    for (int r = 0; r < 2; ++r) {
      missed += cluster.attention(r).statistics().rounds_missed;
      missed += cluster.experts(r).statistics().rounds_missed;
    }
  }
}

class Aborts : public testing::Test {
 protected:
  Aborts() {
    service_.topology = MakeTopology(2, {4, 5}, held_.model.layers, held_.model.moe.experts);
  }
  Served Whole() { return Serve(held_, service_); }

  const HeldModel held_ = SmallRandomModel(DType::kFloat32, 3);
  Service service_;
};

TEST_F(Aborts, AreOneForAllWhoMissARoundAndAreCounted) {
  service_.deadlines.detection = Scaled(Seconds(1.0));  // no member is delayed as long
  const Served whole = Whole();
  EXPECT_EQ(whole.rounds_missed(), 0u);
  // Both expert instances miss the rows, and then both attention instances miss the replies.
  const Served run = Serve(held_, service_, {{kAttention1, {{Fault::kDrop, 1, {}, IsRows}}}});
  EXPECT_EQ(Differences(run, whole), "");
  ASSERT_TRUE(Complete(run)) << run.failure.ToString();
  EXPECT_GE(run.rounds_missed(), 1u);
  for (const InstanceStatistics& one : run.statistics) {
    EXPECT_EQ(one.steps_aborted, 1u) << ToString(one.role) << " " << one.rank;
  }
}

// Attention 0 has no part in the step, so no member misses a round.
TEST_F(Aborts, ATicketThatNobodyGotIsMissedByWhoAskedForIt) {
  service_.at = 1;
  service_.deadlines.detection = Scaled(Seconds(0.5));  // a ticket is missed once
  const Served whole = Whole();
  for (const uint64_t step : {1u, 2u, 3u}) {
    PlannedFault lost{Fault::kDrop, 0, {}, [step](const Header& h) {
                        return h.kind == MessageKind::kTicket && h.step == step;
                      }};
    lost.from_then_on = true;
    const Served run = Serve(held_, service_, {{kAttention0, {lost}}});
    EXPECT_EQ(Differences(run, whole), "") << "step " << step;
    ASSERT_TRUE(Complete(run)) << "step " << step << ": " << run.failure.ToString();
    EXPECT_EQ(run.statistics[1].steps_aborted, 1u) << "step " << step;
  }
}

// Attention 0 has ended the step and continues; attention 1 repeats it.
TEST_F(Aborts, LeaveWhatAnotherMemberHasEnded) {
  service_.max_tokens = 30;
  const Served whole = Whole();
  const int last = held_.model.layers - 1;
  uint64_t repeated = 0;
  // In a step that one instance takes alone, as on a busy machine, nothing happens; then try a
  // later one.
  for (uint64_t step = 1; step <= 28 && repeated < 2; ++step) {
    // The second message of a round's contributions goes to attention 1.
    const auto of_last_layer = [&](const Header& h) {
      return IsContributions(h) && h.step == step && h.layer == last;
    };
    const Served run =
        Serve(held_, service_, {{kExperts1, {{Fault::kDrop, 1, {}, of_last_layer}}}});
    EXPECT_EQ(Differences(run, whole), "") << "step " << step;
    EXPECT_TRUE(Complete(run)) << run.failure.ToString();
    repeated += run.statistics[1].steps_aborted;
  }
  EXPECT_GE(repeated, 2u);
}

// With its initial deadline the lost message would cost 60 s.
TEST_F(Aborts, ComeAsSoonAsTheRoundsOfTheServiceAllow) {
  service_.deadlines = {Scaled(Seconds(60.0)), Scaled(Seconds(120.0)), Seconds(0.2)};
  service_.requests = 24;  // a further window would forget the miss
  service_.max_tokens = 240;
  const Served whole = Whole();
  // Only when every member has seen a window of rounds. On a busy machine the attention instances
  // take turns, and one may be far behind.
  const auto window = static_cast<uint64_t>(DetectionDeadline::kWindow / held_.model.layers);
  std::atomic<bool> all_know = false;
  const auto now = [&](const Header& h) { return all_know && IsContributions(h); };
  const Served run = Serve(
      held_, service_, {{kExperts1, {{Fault::kDrop, 0, {}, now}}}}, nullptr,
      [&](LoopbackCluster& cluster) {
        for (int a = 0; a < 2; ++a) {
          while (cluster.attention(a).statistics().steps <= window && cluster.failure().ok()) {
            std::this_thread::yield();
          }
        }
        all_know = true;
      });
  EXPECT_EQ(Differences(run, whole), "");
  ASSERT_TRUE(Complete(run)) << run.failure.ToString();
  EXPECT_GE(run.rounds_missed(), 1u);  // on a busy machine others may miss it too
  for (const InstanceStatistics& one : run.statistics) {
    SCOPED_TRACE(ToString(PeerId{one.role, one.rank}));
    EXPECT_GE(one.steps_aborted, 1u);
    EXPECT_GE(one.detection_seconds, 0.8);  // four times as long, because of the step given up
    EXPECT_LT(one.detection_seconds, service_.deadlines.detection.count());
  }
}

TEST_F(Aborts, AMemberThatStandsStillForLessThanTheLossDeadlineHurtsNobody) {
  service_.deadlines.loss = Scaled(Seconds(40.0));
  const Served whole = Whole();
  for (const auto& [member, among] :
       {std::pair{kExperts1, &IsContributions}, std::pair{kAttention1, &IsRows},
        std::pair{kAttention0, &IsRows}}) {
    SCOPED_TRACE(ToString(member));
    Halt halt;
    const Served run =
        Serve(held_, service_, {}, halt.At(member, 2, among), [&](LoopbackCluster& cluster) {
          AwaitMissedRound(cluster);
          halt.LetGo();
        });
    EXPECT_EQ(Differences(run, whole), "");
    EXPECT_TRUE(Complete(run)) << run.failure.ToString();
    EXPECT_GE(run.rounds_missed(), 1u);
  }
}

TEST_F(Aborts, AMemberThatStandsStillForLongerIsNamed) {
  service_.deadlines = {Scaled(Seconds(0.05)), Scaled(Seconds(0.5))};
  for (const auto& [member, among, said] :
       {std::tuple{kExperts1, &IsContributions, "but still in it: experts 1"},
        std::tuple{kAttention1, &IsRows, "but still in it: attention 1"},
        std::tuple{kAttention0, &IsRows, "attention 0 did not end the missed step"}}) {
    Halt halt;
    const Served run =
        Serve(held_, service_, {}, halt.At(member, 2, among), [&](LoopbackCluster& cluster) {
          while (cluster.failure().ok()) std::this_thread::yield();
          halt.LetGo();
        });
    EXPECT_EQ(run.failure.code(), StatusCode::kDeadlineExceeded);
    for (const char* part : {said, "step ", "MoE layer"}) {
      EXPECT_TRUE(Contains(run.failure.message(), part));
    }
  }
}

TEST_F(Aborts, RowsThatAreGivenUpAgainAndAgainEndWithTheReason) {
  // Longer than a busy machine delays the other members.
  service_.deadlines.detection = Scaled(Seconds(0.5));
  const Served whole = Whole();
  PlannedFault always{Fault::kDrop, 5, {}, IsContributions};
  always.from_then_on = true;
  const Served run = Serve(held_, service_, {{kExperts1, {always}}});
  EXPECT_EQ(Differences(run, whole), "");
  EXPECT_FALSE(Complete(run));
  EXPECT_EQ(run.failure.code(), StatusCode::kInternal);
  for (const char* part : {"4 times in a row", "experts 1", "MoE layer"}) {
    EXPECT_TRUE(Contains(run.failure.message(), part));
  }
}

// Requests come and are cancelled, sequences are preempted and replayed, prompts go in chunks,
// micro-batches are in flight. Whatever message is lost, the bits stay those of the request alone.
TEST_F(Aborts, RandomSchedulesThatLoseMessagesBringTheBitsOfTheRequestAlone) {
  const uint64_t seed = TestSeed();
  const RequestPool pool = MakeRequestPool(held_, KernelChoice(), 20, MixSeed(seed, 2));
  const int schedules = HowMany({.sanitized = 4, .gate = 8, .nightly = 24, .soak = 200});
  uint64_t aborted = 0;
  // If no lost message caused a missed round, more schedules follow.
  for (int i = 0; i < schedules || (aborted == 0 && i < schedules + 40); ++i) {
    Random random(MixSeed(seed, 31, static_cast<uint64_t>(i)));
    const int m = random.Between(1, 3), n = random.Between(1, 3);
    Schedule schedule = RandomSchedule(random, m, n, held_.model, pool);
    // Longer than any step takes on a busy machine; otherwise the same rows would be given up
    // without end.
    schedule.deadlines = {std::min(Scaled(Seconds(0.5)), Seconds(3.0)), Scaled(Seconds(20.0))};
    std::map<PeerId, std::vector<PlannedFault>> faults;
    for (int lost = random.Between(1, 3); lost > 0; --lost) {
      const bool attention = random.Chance(0.5);
      const PeerId member{attention ? Role::kAttention : Role::kExperts,
                          Rank{random.Between(0, (attention ? m : n) - 1)}};
      faults[member].push_back({Fault::kDrop, random.Between(0, 80)});
    }
    const auto lossy = [&](PeerId self, std::unique_ptr<Transport> inner) {
      return std::make_unique<FaultyTransport>(std::move(inner), faults[self]);
    };
    const ScheduleRun run = RunSchedule(schedule, held_, pool, KernelChoice(), nullptr, lossy);
    aborted += run.aborted;
    ASSERT_EQ(Differences(schedule, run, pool), "")
        << "schedule " << i << ": " << schedule << "\nagain with JANUS_SEED=" << seed;
  }
  std::printf("%d schedules, %llu steps given up\n", schedules,
              static_cast<unsigned long long>(aborted));
  EXPECT_GT(aborted, 0u);
}

}  // namespace
}  // namespace janus::dataplane
