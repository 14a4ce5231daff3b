#include "common/exchange_size.h"

#include <gtest/gtest.h>

#include <tuple>

#include "dataplane/comm/exchange/direct.h"
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
    for (const Role role : {Role::kAttention, Role::kExperts}) {
      const PeerId self{role, Rank{0}};
      const SegmentMap map(DirectLayout(shape, self), self);
      EXPECT_EQ(map.bytes(), SegmentBytes(shape.size(), role))
          << ToString(self) << " of " << m << "A" << n << "E";
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

}  // namespace
}  // namespace janus::dataplane
