// The exchange alone: after the first rounds a round allocates nothing, on either side and over
// every transport.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "dataplane/comm/exchange/exchange.h"
#include "tests/integration/allocations/allocations.h"
#include "tests/integration/allocations/networks.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {
namespace {

TEST(Allocations, AreCountedHoweverTheyAreMade) {
  std::vector<void*> kept;
  const auto counts = [&kept](auto&& allocate) {
    const Allocations before = AllocationsOfThisThread();
    void* memory = allocate();
    const Allocations counted = AllocationsOfThisThread() - before;
    kept.push_back(memory);
    return std::pair(counted.all, counted.ours);
  };
  kept.reserve(8);
  using Counted = std::pair<uint64_t, uint64_t>;
  constexpr Counted kC(1, 0), kCpp(1, 1);
  EXPECT_EQ(counts([] { return std::malloc(100); }), kC);
  EXPECT_EQ(counts([] { return std::calloc(10, 10); }), kC);
  EXPECT_EQ(counts([] { return std::aligned_alloc(64, 128); }), kC);
  EXPECT_EQ(counts([] { return ::operator new(100); }), kCpp);
  EXPECT_EQ(counts([] { return strdup("by a library"); }), kC);
  ::operator delete(kept[3]);
  kept[3] = nullptr;
  for (void* memory : kept) std::free(memory);
}

constexpr int kWarmUp = 60;
constexpr int kCounted = 240;

// Alternates small messages with sizes for which UCX would choose rendezvous.
int RowsOf(int round) {
  return round % 3 == 0 ? 0 : round % 3 == 1 ? 1 : 64;
}

RoundKey KeyOf(int round, int micro_batch) {
  RoundKey key;
  key.epoch = 1;
  key.step = static_cast<uint64_t>(round) + 1;
  key.micro_batch = static_cast<uint8_t>(micro_batch);
  return key;
}

MonotonicTime Soon() {
  return MonotonicClock::now() + Scaled(std::chrono::seconds(20));
}

// Both functions run all rounds and return the allocations of the counted ones.
Allocations AttentionRounds(const ExchangeShape& shape, Transport& transport) {
  const auto exchange = *MakeAttentionExchange(shape, transport);
  const Participants all(static_cast<size_t>(shape.m), true);
  Allocations before;
  for (int round = 0; round < kWarmUp + kCounted; ++round) {
    if (round == kWarmUp) before = AllocationsOfThisThread();
    exchange->BeginStep(KeyOf(round, 0), all);
    for (int i = 0; i < shape.micro_batches; ++i) {
      std::memset(exchange->Rows(i).data(), round, static_cast<size_t>(RowsOf(round)));
      JANUS_CHECK(exchange->Post(KeyOf(round, i), RowsOf(round), MonotonicClock::now()).ok());
    }
    for (int i = 0; i < shape.micro_batches; ++i) {
      const Status waited =
          transport.Wait(Soon(), [&] { return exchange->Poll(KeyOf(round, i)).value(); });
      JANUS_CHECK(waited.ok(), waited.ToString());
      // In the two-phase modes one sum has those of a node.
      for (const void* row : exchange->Contributions(i)) {
        JANUS_CHECK(row != nullptr || shape.sums.on());
      }
    }
  }
  return AllocationsOfThisThread() - before;
}

// `running`: attention instances that have not ended. Until then it passes on messages.
Allocations ExpertRounds(const ExchangeShape& shape, Transport& transport,
                         const std::atomic<int>& running) {
  const auto exchange = *MakeExpertExchange(shape, transport);
  const int self = transport.layout().self.rank.value;
  const Participants all(static_cast<size_t>(shape.m), true);
  Allocations before;
  for (int round = 0; round < kWarmUp + kCounted; ++round) {
    if (round == kWarmUp) before = AllocationsOfThisThread();
    exchange->BeginStep(KeyOf(round, 0), all);
    for (int i = 0; i < shape.micro_batches; ++i) {
      for (int a = 0; a < shape.m; ++a) {
        ArrivedRows rows;
        const Status waited = transport.Wait(
            Soon(), [&] { return exchange->Poll(KeyOf(round, i), Rank{a}, rows).value(); });
        JANUS_CHECK(waited.ok(), waited.ToString());
        // Instance k owns top-k slot k of each row.
        const ExpertExchange::Outgoing out = exchange->Begin(i, Rank{a}, rows.count);
        for (int row = 0; row < rows.count; ++row) {
          out.refs[static_cast<size_t>(row)] = {static_cast<uint16_t>(row),
                                                static_cast<uint8_t>(self), 0};
        }
        JANUS_CHECK(exchange->Post(KeyOf(round, i), Rank{a}, rows.posted).ok());
      }
    }
  }
  const Allocations counted = AllocationsOfThisThread() - before;
  // The last posts must still leave.
  (void)transport.Wait(Soon(), [&] { return running.load() == 0; });
  const MonotonicTime deadline = Soon();
  while (!transport.Settle() && MonotonicClock::now() < deadline) std::this_thread::yield();
  return counted;
}

struct Kind {
  NetworkKind network;
  ExchangeMode mode;
  int sum_bits = 0;
};
void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.network.name << ToString(kind.mode) << kind.sum_bits;
}
std::vector<Kind> AllKinds() {
  std::vector<Kind> kinds;
  for (const NetworkKind& network : EveryNetwork()) {
    for (const auto mode : {ExchangeMode::kDirect, ExchangeMode::kTwoPhaseSingle}) {
      for (const int bits : {0, 24}) kinds.push_back({network, mode, bits});
    }
  }
  return kinds;
}

class RoundTest : public testing::TestWithParam<Kind> {};

TEST_P(RoundTest, AllocatesNothing) {
  const ExchangeMode mode = GetParam().mode;
  ExchangeShape shape;
  shape.sums.bits = GetParam().sum_bits;
  shape.hidden = 1024;
  shape.wire = DType::kBFloat16;
  shape.micro_batches = 2;
  shape.max_rows = 64;
  shape.m = shape.n = shape.top_k = 2;
  shape.node_of = {0, 0, 0, 0};
  Network network = GetParam().network.connect(LayoutFor(mode, shape, PeerId{}),
                                               WaitPolicy::ForThreads(shape.m + shape.n));
  for (auto& member : network.members) member = RelayOver(mode, shape, std::move(member));
  std::atomic<int> running{shape.m};
  std::vector<Allocations> allocations(network.members.size());
  {
    std::vector<std::jthread> threads;
    for (size_t member = 0; member < network.members.size(); ++member) {
      threads.emplace_back([&, member] {
        Transport& transport = *network.members[member];
        if (static_cast<int>(member) >= shape.m) {
          allocations[member] = ExpertRounds(shape, transport, running);
          return;
        }
        allocations[member] = AttentionRounds(shape, transport);
        --running;
        for (auto& each : network.members) each->Wake();
        // The other attention instance may still need what this one passes on.
        (void)transport.Wait(Soon(), [&] { return running.load() == 0; });
      });
    }
  }
  for (size_t member = 0; member < allocations.size(); ++member) {
    const PeerId self = MemberAt(network.layout, static_cast<int>(member));
    EXPECT_EQ(allocations[member].ours, 0u) << self << " in " << kCounted << " rounds";
    // The instances of a node share memory in a service. Here some use UCX, which then allocates.
    if (mode == ExchangeMode::kDirect) {
      EXPECT_EQ(allocations[member].all, 0u) << self << ": UCX itself";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RoundTest, testing::ValuesIn(AllKinds()), [](const auto& info) {
  return info.param.network.name + std::string(ToString(info.param.mode)) +
         (info.param.sum_bits > 0 ? "Sums" : "");
});

}  // namespace
}  // namespace janus::dataplane
