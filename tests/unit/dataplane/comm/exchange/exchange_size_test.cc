#include "common/exchange_size.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "dataplane/comm/exchange/direct.h"
#include "dataplane/comm/exchange/exchange.h"
#include "dataplane/comm/transport/segment.h"

namespace janus::dataplane {
namespace {

// Plans use these sizes, and members allocate by them.
TEST(ExchangeSize, IsWhatMembersAllocate) {
  for (const auto& [m, n, micro_batches, max_rows, top_k] :
       {std::tuple{1, 1, 1, 1, 1}, {2, 3, 1, 512, 8}, {4, 16, 2, 100, 6}, {1, 5, 3, 7, 2}}) {
    ExchangeShape shape;
    shape.hidden = 96;
    shape.top_k = top_k;
    shape.wire = DType::kBFloat16;
    shape.micro_batches = micro_batches;
    shape.max_rows = max_rows;
    shape.m = m;
    shape.n = n;
    for (const int bits : {0, 32, 24}) {
      shape.sums.bits = bits;
      for (const auto& [role, gate] : {std::pair{Role::kAttention, GateSide::kExperts},
                                       {Role::kAttention, GateSide::kAttention},
                                       {Role::kExperts, GateSide::kAttention},
                                       {Role::kExperts, GateSide::kExperts}}) {
        shape.gate = gate;
        const PeerId self{role, Rank{0}};
        const SegmentMap map(DirectLayout(shape, self), self);
        EXPECT_EQ(map.bytes(), SegmentBytes(shape.size(), role))
            << ToString(self) << " of " << m << "A" << n << "E, sums of " << bits;
      }
    }
  }
}

TEST(ExchangeSize, OverANetworkASlotLandsTwiceAndEachPairHasQueues) {
  ExchangeSize size{2, 3, 1, 10, 4, 192};
  const size_t contributions = LandingBytes(ContributionSlotBytes(size));
  const size_t rows = LandingBytes(RowSlotBytes(size));
  EXPECT_EQ(NetworkBytes(size, Role::kAttention), 2 * 3 * contributions + 4 * NetworkQueueBytes());
  EXPECT_EQ(NetworkBytes(size, Role::kExperts), 2 * 2 * rows + 2 * NetworkQueueBytes());
}

// In the two-phase modes a plan reserves what the largest member allocates, and little more.
TEST(ExchangeSize, CoversTheLargestMemberOfTheTwoPhaseModes) {
  for (const auto& [mode, gate] : {std::pair{ExchangeMode::kTwoPhaseSingle, GateSide::kExperts},
                                   {ExchangeMode::kTwoPhaseSingle, GateSide::kAttention},
                                   {ExchangeMode::kTwoPhaseParallel, GateSide::kExperts},
                                   {ExchangeMode::kTwoPhaseParallel, GateSide::kAttention}}) {
    for (const auto& [m, a_each, n, e_each] : {std::tuple{8, 4, 8, 2},
                                               {8, 4, 4, 4},
                                               {1, 1, 1, 1},
                                               {7, 4, 9, 4},
                                               {4, 1, 6, 2},
                                               {5, 8, 3, 1}}) {
      ExchangeShape shape;
      shape.hidden = 4096;
      shape.top_k = 8;
      shape.wire = DType::kBFloat16;
      shape.micro_batches = 2;
      shape.max_rows = 64;
      shape.gate = gate;
      shape.m = m;
      shape.n = n;
      if (m == 8) shape.sums.bits = 24;
      for (int a = 0; a < m; ++a) shape.node_of.push_back(a / a_each);
      for (int e = 0; e < n; ++e) shape.node_of.push_back(e / e_each);
      ExchangeSize size = shape.size();
      size.mode = mode;
      size.attention_per_node = a_each;
      size.experts_per_node = e_each;
      for (const Role role : {Role::kAttention, Role::kExperts}) {
        SCOPED_TRACE(std::string(ToString(mode)) + " " + std::string(ToString(role)) + " of " +
                     std::to_string(m) + "/" + std::to_string(a_each) + " " + std::to_string(n) +
                     "/" + std::to_string(e_each));
        size_t segment = 0, network = 0;
        for (int rank = 0; rank < (role == Role::kAttention ? m : n); ++rank) {
          const PeerId self{role, Rank{rank}};
          const TransportLayout layout = LayoutFor(mode, shape, self);
          segment = std::max(segment, SegmentMap(layout, self).bytes());
          size_t landing = 0;
          for (const SlotSpec& slot : layout.slots) {
            const bool reads = std::ranges::count(slot.readers, self) > 0;
            if (reads) landing += exchange_size::kLandingSets * LandingBytes(slot.bytes);
          }
          network = std::max(network, landing + PeersOf(layout).size() * NetworkQueueBytes());
        }
        EXPECT_GE(SegmentBytes(size, role), segment);
        EXPECT_GE(NetworkBytes(size, role), network);
        if (m % a_each == 0 && n % e_each == 0) {
          EXPECT_LE(SegmentBytes(size, role), segment * 5 / 4);
          EXPECT_LE(NetworkBytes(size, role), network * 2);
        }
      }
    }
  }
}

}  // namespace
}  // namespace janus::dataplane
