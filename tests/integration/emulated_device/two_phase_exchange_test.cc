// The two-phase modes between members with devices. Rows stay in the devices' memory. One instance
// of each expert node reads them over the network, and its mates read them there.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/gpu_links.h"
#include "dataplane/worker/connect.h"
#include "tests/integration/emulated_device/held_up_reads.h"
#include "tests/support/contains.h"
#include "tests/support/emulated_device.h"
#include "tests/unit/dataplane/comm/exchange/steps.h"

namespace janus::dataplane {
namespace {

constexpr ExchangeMode kModes[] = {ExchangeMode::kTwoPhaseSingle, ExchangeMode::kTwoPhaseParallel};

// The memory domain of each member, attention first.
enum class Machines {
  kOfEachNode,  // the nodes of the two roles share none
  kOfPairs,     // attention node i and expert node i share one
  kOne
};

std::vector<int> DomainsOf(const ExchangeShape& shape, Machines machines) {
  std::vector<int> domains;
  for (size_t i = 0; i < shape.node_of.size(); ++i) {
    const bool is_apart = machines == Machines::kOfEachNode && i >= static_cast<size_t>(shape.m);
    domains.push_back(machines == Machines::kOne ? 0 : shape.node_of[i] + (is_apart ? 100 : 0));
  }
  return domains;
}

// Members whose devices lag behind their hosts.
class Devices {
 public:
  using Limit = std::function<void(kernels::EmulatedDevice&, PeerId)>;

  Devices(ExchangeMode mode, const ExchangeShape& shape, Machines machines, uint64_t seed,
          const Limit& limit = nullptr) {
    const TransportLayout layout = LayoutFor(mode, shape, PeerId{});
    std::vector<kernels::Context*> contexts;
    for (int i = 0; i < shape.m + shape.n; ++i) {
      devices_.push_back(std::make_unique<kernels::EmulatedDevice>(size_t{16} << 20));
      devices_.back()->RunBehind(MixSeed(seed, static_cast<uint64_t>(i)));
      if (limit) limit(*devices_.back(), MemberAt(layout, i));
      contexts.push_back(devices_.back().get());
    }
    members_ = std::make_unique<Members>(
        mode, shape,
        ConnectDevices(layout, WaitPolicy(), contexts, JoinDomainsOf(DomainsOf(shape, machines))),
        contexts);
  }

  Members& operator*() { return *members_; }
  Members* operator->() { return members_.get(); }
  kernels::EmulatedDevice& device(int member) { return *devices_[static_cast<size_t>(member)]; }

 private:
  std::vector<std::unique_ptr<kernels::EmulatedDevice>> devices_;
  std::unique_ptr<Members> members_;
};

// A step in which all attention instances have rows.
StepPlan FullStep(const ExchangeShape& shape, uint64_t step) {
  Random random(MixSeed(TestSeed(), step));
  StepPlan plan = RandomStep(random, shape, step);
  plan.takes_part.assign(static_cast<size_t>(shape.m), true);
  for (std::vector<RoundPlan>& rounds : plan.rounds) {
    for (RoundPlan& round : rounds) {
      for (size_t a = 0; a < plan.takes_part.size(); ++a) {
        round.rows[a] = static_cast<int>(a) % shape.max_rows + 1;
        round.owner_of[a].clear();
        for (int cell = 0; cell < round.rows[a] * shape.top_k; ++cell) {
          round.owner_of[a].push_back(random.Between(0, shape.n - 1));
        }
      }
    }
  }
  return plan;
}

void Begin(Members& members, const ExchangeShape& shape, const StepPlan& step) {
  for (int a = 0; a < shape.m; ++a) {
    members.attention(a).BeginStep(KeyOf(step.step), step.takes_part);
  }
  for (int e = 0; e < shape.n; ++e) {
    members.experts(e).BeginStep(KeyOf(step.step), step.takes_part);
  }
}

// A network makes progress while the members at both ends wait.
void Progress(Members& members) {
  for (auto& member : members.network().members) {
    static_cast<void>(member->Wait(MonotonicTime::min(), [] { return true; }));
  }
}

TEST(TwoPhaseDevices, DeliverAsTheReferenceSays) {
  const uint64_t seed = TestSeed();
  const int runs = HowMany({.sanitized = 6, .gate = 12, .nightly = 60, .soak = 1000});
  int in_gpus = 0;
  for (int run = 0; run < runs; ++run) {
    SCOPED_TRACE("JANUS_SEED=" + std::to_string(seed) + " run " + std::to_string(run));
    Random random(MixSeed(seed, 40, static_cast<uint64_t>(run)));
    Nodes nodes;
    for (std::vector<int>* role : {&nodes.attention, &nodes.experts}) {
      const int count = random.Between(1, 2);
      for (int i = 0; i < count; ++i) role->push_back(random.Between(1, 3));
    }
    const ExchangeShape shape =
        ShapeOfNodes(nodes, random.Between(1, 3), random.Between(1, 3), random.Between(1, 9));
    const auto machines = static_cast<Machines>(run % 3);
    Devices members(kModes[run / 3 % 2], shape, machines, MixSeed(seed, 41, run));
    std::vector<StepPlan> steps;
    for (uint64_t step = 1; step <= 6; ++step) steps.push_back(RandomStep(random, shape, step));
    RunSteps(*members, shape, steps, MixSeed(seed, 42, run));
    ASSERT_FALSE(HasFailure());
    for (int member = 0; member < shape.m + shape.n; ++member) {
      EXPECT_TRUE(members->slots(member)->is_read_by_all()) << member;
      EXPECT_EQ(members->slots(member)->refusal(), "");
    }
    in_gpus += members->in_gpus();  // a run may have no rows
    for (int a = 0; a < shape.m; ++a) EXPECT_EQ(members->attention(a).stale(), 0u);
    for (int e = 0; e < shape.n; ++e) EXPECT_EQ(members->experts(e).stale(), 0u);
    for (auto& member : members->network().members) EXPECT_EQ(member->dropped(), 0u);
  }
  EXPECT_GT(in_gpus, 0);
}

// What the network devices of expert instances read in one round, and how many of them read.
struct ReadByExperts {
  size_t bytes = 0;
  int readers = 0;
};
ReadByExperts ReadIn(ExchangeMode mode, const ExchangeShape& shape, const StepPlan& step,
                     Traffic* sent = nullptr, Traffic* received = nullptr) {
  Devices members(mode, shape, Machines::kOfEachNode, TestSeed());
  std::vector<std::unique_ptr<HeldUpReads>> reads;
  for (int e = 0; e < shape.n; ++e) {
    reads.push_back(std::make_unique<HeldUpReads>(*members->slots(shape.m + e)));
    reads.back()->is_held_up = false;
  }
  RunSteps(*members, shape, {step}, 1);
  ReadByExperts out;
  for (auto& one : reads) {
    out.bytes += one->bytes;
    out.readers += one->bytes > 0 ? 1 : 0;
  }
  for (int a = 0; a < shape.m && sent != nullptr; ++a) {
    sent->messages += members->attention(a).sent().messages;
    sent->bytes += members->attention(a).sent().bytes;
  }
  for (int e = 0; e < shape.n && received != nullptr; ++e) {
    received->messages += members->experts(e).received().messages;
    received->bytes += members->experts(e).received().bytes;
  }
  return out;
}

TEST(TwoPhaseDevices, RowsCrossTheNetworkOnceForEachExpertNode) {
  const ExchangeShape shape = ShapeOfNodes({{3, 1}, {2, 2}}, 1, 1, 4);
  const StepPlan step = FullStep(shape, 1);
  size_t rows = 0;
  for (const int one : step.rounds[0][0].rows) rows += static_cast<size_t>(one);
  rows *= shape.row_bytes();
  const ReadByExperts direct = ReadIn(ExchangeMode::kDirect, shape, step);
  EXPECT_EQ(direct.bytes, 4 * rows);
  EXPECT_EQ(direct.readers, 4);
  Traffic sent, received;
  const ReadByExperts parallel =
      ReadIn(ExchangeMode::kTwoPhaseParallel, shape, step, &sent, &received);
  EXPECT_EQ(parallel.bytes, 2 * rows);
  EXPECT_EQ(parallel.readers, 4) << "not every card is used";
  // Bundles carry a head for each sender and lane, and no rows.
  const size_t heads = 2 * 4 * SectionBytes(0);
  EXPECT_EQ(sent.bytes, 2 * rows + heads);
  EXPECT_EQ(received.bytes, 2 * rows + heads);
  EXPECT_EQ(sent.messages, received.messages);
  sent = received = {};
  const ReadByExperts single = ReadIn(ExchangeMode::kTwoPhaseSingle, shape, step, &sent, &received);
  EXPECT_EQ(single.bytes, 2 * rows);
  EXPECT_EQ(single.readers, 2);
  EXPECT_EQ(sent.messages, 4u);
  EXPECT_EQ(received.messages, 4u);
}

// How rows and contributions were read.
std::string WaysOf(Members& members, const ExchangeShape& shape) {
  std::string ways;
  for (int member = 0; member < shape.m + shape.n; ++member) {
    ways += members.slots(member)->is_read_by_all() ? 'd' : '-';
  }
  return ways;
}

TEST(TwoPhaseDevices, LinksSayWhereRowsAre) {
  const ExchangeShape shape = ShapeOfNodes({{2}, {2}}, 1, 1, 4);
  Devices members(ExchangeMode::kTwoPhaseSingle, shape, Machines::kOfEachNode, TestSeed());
  const auto ways = [&](int member) {
    std::string all;
    Transport& transport = *members->network().members[static_cast<size_t>(member)];
    for (const PeerLink& link : LinksOf(transport, members->slots(member))) {
      all += ToString(PeerId{link.role, link.rank}) + " " + link.transport + "; ";
    }
    return all;
  };
  EXPECT_EQ(ways(0),
            "attention 1 shared memory; experts 0 UCX tcp/lo, GPU memory; "
            "experts 1 UCX tcp/lo, GPU memory; ");
  EXPECT_EQ(ways(2),
            "attention 0 UCX tcp/lo, GPU memory; attention 1 UCX tcp/lo, GPU memory; "
            "experts 1 shared memory; ");
  EXPECT_EQ(ways(3),
            "attention 0 UCX tcp/lo, GPU memory; attention 1 UCX tcp/lo, GPU memory; "
            "experts 0 shared memory, GPU memory; ")
      << "it reads what lands there";
}

constexpr PeerId kExperts0{Role::kExperts, Rank{0}};
constexpr PeerId kExperts1{Role::kExperts, Rank{1}};

// In each of these, rows go through host memory and are right, and others' payloads do not.
TEST(TwoPhaseDevices, RowsGoThroughHostsWhereANodeCannotShareThem) {
  const ExchangeShape shape = ShapeOfNodes({{2}, {2, 1}}, 2, 2, 4);
  struct Case {
    const char* name;
    Devices::Limit limit;
    std::string ways;
    int refuser;
    const char* why;
  };
  for (const Case& c :
       {Case{"a mate that maps nothing",
             [](kernels::EmulatedDevice& device, PeerId member) {
               if (member == kExperts1) device.Isolate();
             },
             "--ddd", 3, "memory of experts 0: the emulated device reaches no other"},
        Case{"an end that no network reaches",
             [](kernels::EmulatedDevice& device, PeerId member) {
               if (member == kExperts0) device.RefuseNetwork();
             },
             "---dd", 3, "experts 0 does not read GPU memory of attention 0 for its node"},
        Case{"a mate without flags",
             [](kernels::EmulatedDevice& device, PeerId member) {
               if (member == kExperts1) device.RefuseFlags();
             },
             "---", -1, ""}}) {
    SCOPED_TRACE(c.name);
    Devices members(ExchangeMode::kTwoPhaseSingle, shape, Machines::kOfEachNode, TestSeed(),
                    c.limit);
    RunSteps(*members, shape, {FullStep(shape, 1), FullStep(shape, 2)}, 1);
    ASSERT_FALSE(HasFailure());
    if (c.refuser < 0) {
      EXPECT_EQ(members->slots(3), nullptr);
      EXPECT_FALSE(members->slots(0)->is_read_by_all());
      continue;
    }
    EXPECT_EQ(WaysOf(*members, shape), c.ways);
    EXPECT_TRUE(Contains(members->slots(c.refuser)->refusal(), c.why))
        << members->slots(c.refuser)->refusal();
    // By which the operator knows that mode Direct may leave rows in GPUs.
    const std::vector<PeerLink> links =
        LinksOf(*members->network().members.front(), members->slots(0));
    EXPECT_TRUE(std::ranges::any_of(
        links, [](const PeerLink& link) { return link.transport.ends_with(kInGpusOneWay); }));
  }
}

// Two attention instances, and one node of two expert instances; experts 0 lands attention 0's
// rows.
class HeldNode : public testing::Test {
 protected:
  HeldNode()
      : shape_(ShapeOfNodes({{2}, {2}}, 1, 1, 4)),
        members_(ExchangeMode::kTwoPhaseSingle, shape_, Machines::kOfEachNode, TestSeed()),
        step_(FullStep(shape_, 1)) {
    members_->LetAllTakeTurns();
  }

  const RoundPlan& round() const { return step_.rounds[0][0]; }
  DeviceSlots& slots(int expert) { return *members_->slots(shape_.m + expert); }
  // One try of an expert instance to get the rows of attention 0.
  Result<bool> Poll(int expert) {
    Progress(*members_);
    return members_->experts(expert).Poll(round().key, Rank{0}, arrived_);
  }
  void PostAll() {
    Begin(*members_, shape_, step_);
    for (int a = 0; a < shape_.m; ++a) members_->PostRows(round(), a);
  }

  const ExchangeShape shape_;
  Devices members_;
  const StepPlan step_;
  ArrivedRows arrived_;
};

TEST_F(HeldNode, NobodyGoesOnBeforeTheRowsHaveLanded) {
  HeldUpReads reads(slots(0));
  PostAll();
  while (reads.begun < 2) ASSERT_FALSE(*Poll(0));
  for (int i = 0; i < 100; ++i) {
    ASSERT_FALSE(*Poll(0));
    ASSERT_FALSE(*Poll(1));
  }
  EXPECT_EQ(reads.begun, 2) << "one for each sender";
  reads.is_held_up = false;
  for (int e = 0; e < shape_.n; ++e) {
    for (int a = 0; a < shape_.m; ++a) members_->ExpectRows(round(), e, a);
  }
}

TEST_F(HeldNode, AStepIsLeftOnceReadsHaveEnded) {
  HeldUpReads reads(slots(0));
  PostAll();
  while (reads.begun < 2) ASSERT_FALSE(*Poll(0));
  for (int i = 0; i < 100; ++i) {
    ASSERT_FALSE(members_->experts(0).Abandon()) << "what is on its way may still be written";
    Progress(*members_);
  }
  reads.is_held_up = false;
  members_->AbandonAll();
  ASSERT_FALSE(HasFailure());
  // The next step is whole.
  members_->LetAllTakeTurns(false);
  RunSteps(*members_, shape_, {FullStep(shape_, 2)}, 2);
}

// A bundle that comes late is of a step that is left.
TEST_F(HeldNode, NoReadBeginsOnceAStepIsLeft) {
  HeldUpReads reads(slots(0));
  reads.is_held_up = false;
  Begin(*members_, shape_, step_);
  const MonotonicTime most = MonotonicClock::now() + Scaled(std::chrono::seconds(20));
  while (!members_->experts(0).Abandon()) {
    ASSERT_LT(MonotonicClock::now(), most);
    Progress(*members_);
  }
  for (int a = 0; a < shape_.m; ++a) members_->PostRows(round(), a);
  for (int i = 0; i < 200; ++i) Progress(*members_);
  EXPECT_EQ(reads.begun, 0);
  members_->AbandonAll();
}

// UCX has then lost the connection.
TEST_F(HeldNode, AReadThatFailsIsAnErrorOfItsReader) {
  HeldUpReads reads(slots(0));
  reads.failure = Unavailable("GPU memory of attention 0 cannot be read");
  PostAll();
  Transport& transport = members_->network().experts(0);
  const MonotonicTime most = MonotonicClock::now() + Scaled(std::chrono::seconds(20));
  Status waited;
  while (waited.ok() && MonotonicClock::now() < most) {
    Progress(*members_);
    waited = transport.Wait(MonotonicTime::max(), [] { return true; });
  }
  EXPECT_EQ(waited, reads.failure);
}

// UCX knew before that the connection is lost.
TEST_F(HeldNode, NobodyGetsHeadersOfRowsThatCannotBeRead) {
  HeldUpReads reads(slots(0));
  reads.failure = Unavailable("GPU memory of attention 0 cannot be read");
  reads.begins = false;
  PostAll();
  const MonotonicTime most = MonotonicClock::now() + Scaled(std::chrono::seconds(20));
  while (reads.begun < 1) {
    ASSERT_LT(MonotonicClock::now(), most);
    ASSERT_FALSE(*Poll(0));
  }
  for (int i = 0; i < 100; ++i) {
    ASSERT_FALSE(*Poll(0));
    ASSERT_FALSE(*Poll(1));
  }
}

// The end's stream has not signalled, for whatever reason: its mate's stream is released by its own
// host.
TEST_F(HeldNode, AMateLeavesThoughTheEndsStreamIsBehind) {
  kernels::EmulatedDevice& end = members_.device(shape_.m);
  alignas(kernels::Flag) kernels::Flag hold{0};
  const kernels::Buffer shown =
      *end.RegisterFlags(reinterpret_cast<std::byte*>(&hold), sizeof hold);
  ASSERT_TRUE(end.StreamWaitFlags(std::array{kernels::FlagCount{&hold, 1}}).ok());
  PostAll();
  const MonotonicTime most = MonotonicClock::now() + Scaled(std::chrono::seconds(20));
  for (Result<bool> here = false; here.ok() && !*here; here = Poll(1)) {
    ASSERT_LT(MonotonicClock::now(), most);
  }
  ASSERT_TRUE(arrived_.on_device);
  ExpertExchange& mate = members_->experts(1);
  ASSERT_TRUE(mate.StreamWait().ok());
  EXPECT_FALSE(mate.IsThere(round().key, Rank{0}, arrived_));
  const std::unique_ptr<kernels::Event> queued = *members_.device(shape_.m + 1).MakeEvent();
  ASSERT_TRUE(members_.device(shape_.m + 1).Record(*queued).ok());
  EXPECT_EQ(*members_.device(shape_.m + 1).Query(*queued), false)
      << "it read what may not be there";
  while (!mate.Abandon()) {
    ASSERT_LT(MonotonicClock::now(), most) << "the mate's stream waits still";
    Progress(*members_);
  }
  EXPECT_EQ(*members_.device(shape_.m + 1).Query(*queued), true);
  hold = 1;
  members_->AbandonAll();
  ASSERT_FALSE(HasFailure());
  members_->LetAllTakeTurns(false);
  RunSteps(*members_, shape_, {FullStep(shape_, 2)}, 2);
}

// Every end of a node is the mate of others. If signals could be queued behind waits for mates'
// signals, streams would wait for each other in a circle.
TEST(TwoPhaseDevices, StreamsOfMatesDoNotWaitInACircle) {
  const ExchangeShape shape = ShapeOfNodes({{3}, {3}}, 2, 1, 4);
  Devices members(ExchangeMode::kTwoPhaseParallel, shape, Machines::kOfEachNode, TestSeed());
  std::set<int> ends;
  for (const LandingSpec& landing :
       LayoutFor(ExchangeMode::kTwoPhaseParallel, shape, PeerId{}).landings) {
    ends.insert(landing.owner.rank.value);
  }
  ASSERT_EQ(ends.size(), 3u);
  std::vector<StepPlan> steps;
  for (uint64_t step = 1; step <= 30; ++step) steps.push_back(FullStep(shape, step));
  RunSteps(*members, shape, steps, 1);
}

}  // namespace
}  // namespace janus::dataplane
