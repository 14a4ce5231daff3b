// The exchange alone: after the first rounds a round allocates nothing, on either side and over
// every transport.

#include <gtest/gtest.h>

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
  key.step = static_cast<uint64_t>(round) / 2 + 1;
  key.layer = static_cast<uint16_t>(round % 2);
  key.micro_batch = static_cast<uint8_t>(micro_batch);
  return key;
}

MonotonicTime Soon() {
  return MonotonicClock::now() + Scaled(std::chrono::seconds(20));
}

// Both functions run all rounds and return the allocations of the counted ones.
Allocations AttentionRounds(const ExchangeShape& shape, Transport& transport) {
  const auto exchange = *MakeAttentionExchange(shape, transport);
  Allocations before;
  for (int round = 0; round < kWarmUp + kCounted; ++round) {
    if (round == kWarmUp) before = AllocationsOfThisThread();
    for (int i = 0; i < shape.micro_batches; ++i) {
      std::memset(exchange->Rows(i).data(), round, static_cast<size_t>(RowsOf(round)));
      JANUS_CHECK(exchange->Post(KeyOf(round, i), RowsOf(round), MonotonicClock::now()).ok());
    }
    for (int i = 0; i < shape.micro_batches; ++i) {
      const Status waited =
          transport.Wait(Soon(), [&] { return exchange->Poll(KeyOf(round, i)).value(); });
      JANUS_CHECK(waited.ok(), waited.ToString());
      for (const void* row : exchange->Contributions(i)) JANUS_CHECK(row != nullptr);
    }
  }
  return AllocationsOfThisThread() - before;
}

Allocations ExpertRounds(const ExchangeShape& shape, Transport& transport) {
  const auto exchange = *MakeExpertExchange(shape, transport);
  const int self = transport.layout().self.rank.value;
  Allocations before;
  for (int round = 0; round < kWarmUp + kCounted; ++round) {
    if (round == kWarmUp) before = AllocationsOfThisThread();
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
  const MonotonicTime deadline = Soon();
  while (!transport.Settle() && MonotonicClock::now() < deadline) std::this_thread::yield();
  return counted;
}

class RoundTest : public testing::TestWithParam<NetworkKind> {};

TEST_P(RoundTest, AllocatesNothing) {
  ExchangeShape shape;
  shape.hidden = 1024;
  shape.wire = DType::kBFloat16;
  shape.micro_batches = 2;
  shape.max_rows = 64;
  shape.m = shape.n = shape.top_k = 2;
  Network network = GetParam().connect(LayoutFor(ExchangeMode::kDirect, shape, PeerId{}),
                                       WaitPolicy::ForThreads(shape.m + shape.n));
  std::vector<Allocations> allocations(network.members.size());
  {
    std::vector<std::jthread> threads;
    for (size_t member = 0; member < network.members.size(); ++member) {
      threads.emplace_back([&, member] {
        Transport& transport = *network.members[member];
        allocations[member] = static_cast<int>(member) < shape.m ? AttentionRounds(shape, transport)
                                                                 : ExpertRounds(shape, transport);
      });
    }
  }
  for (size_t member = 0; member < allocations.size(); ++member) {
    const PeerId self = MemberAt(network.layout, static_cast<int>(member));
    EXPECT_EQ(allocations[member].ours, 0u) << self << " in " << kCounted << " rounds";
    EXPECT_EQ(allocations[member].all, 0u) << self << ": UCX itself";
  }
}

INSTANTIATE_TEST_SUITE_P(All, RoundTest, testing::ValuesIn(EveryNetwork()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace janus::dataplane
