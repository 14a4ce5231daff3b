#include "dataplane/comm/transport/segment.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "dataplane/comm/exchange/exchange.h"
#include "tests/support/contains.h"

namespace janus::dataplane {
namespace {

ExchangeShape Shape() {
  ExchangeShape shape;
  shape.hidden = 8;
  shape.top_k = 2;
  shape.micro_batches = 2;
  shape.max_rows = 4;
  shape.m = 1;
  shape.n = 1;
  return shape;
}

TransportLayout LayoutOf(const ExchangeShape& shape, int member) {
  TransportLayout layout = LayoutFor(ExchangeMode::kDirect, shape, PeerId{});
  layout.self = MemberAt(layout, member);
  return layout;
}

Segment Allocate(const TransportLayout& layout) {
  Segment segment;
  segment.bytes = SegmentMap(layout, layout.self).bytes();
  std::shared_ptr<void> memory(std::aligned_alloc(4096, segment.bytes), std::free);
  segment.base = static_cast<std::byte*>(memory.get());
  segment.keep = memory;
  InitSegment(segment, layout);
  return segment;
}

// Two members with different tags, like those of two epochs.
class TagTest : public testing::Test {
 protected:
  TagTest() {
    for (int member = 0; member < 2; ++member) {
      segments_.emplace_back(Allocate(LayoutOf(Shape(), member)));
    }
  }
  std::unique_ptr<Transport> Connect(int member, uint64_t tag) {
    return std::make_unique<SegmentTransport>(LayoutOf(Shape(), member), tag, segments_,
                                              WaitPolicy(), nullptr, "test");
  }
  std::vector<std::optional<Segment>> segments_;
};

TEST_F(TagTest, DropsAndCountsASlotOfAnotherEpoch) {
  const auto attention = Connect(0, 1);
  const auto experts = Connect(1, 2);
  ASSERT_TRUE(attention->Post(0, MakeHeader(MessageKind::kRows, {}, 0, 0)).ok());
  SlotMessage message;
  EXPECT_FALSE(experts->Take({Role::kAttention, Rank{0}}, 0, message));
  EXPECT_EQ(experts->dropped(), 1u);
  EXPECT_FALSE(experts->Take({Role::kAttention, Rank{0}}, 0, message));
  EXPECT_EQ(experts->dropped(), 1u) << "one message, counted once";
}

TEST_F(TagTest, DropsAndCountsControlOfAnotherEpochAndReadsOn) {
  const auto stale = Connect(0, 1);
  const auto experts = Connect(1, 2);
  Header header = MakeHeader(MessageKind::kTicket, {}, 0, 0);
  ASSERT_TRUE(stale->Send({Role::kExperts, Rank{0}}, header, {}).ok());
  const auto attention = Connect(0, 2);
  header.count = 9;
  ASSERT_TRUE(attention->Send({Role::kExperts, Rank{0}}, header, {}).ok());
  std::vector<std::byte> payload;
  ASSERT_TRUE(experts->Receive({Role::kAttention, Rank{0}}, header, payload));
  EXPECT_EQ(header.count, 9u);
  EXPECT_EQ(experts->dropped(), 1u);
}

TEST_F(TagTest, ACountThatNoWriterReachesIsSkippedAtOnceAndCounted) {
  const auto attention = Connect(0, 1);
  const auto experts = Connect(1, 1);
  // The peer's own memory: the count of messages it has queued for member 1.
  auto* written = reinterpret_cast<std::atomic<uint64_t>*>(
      segments_[0]->base +
      SegmentMap(LayoutOf(Shape(), 0), LayoutOf(Shape(), 0).self).queue_offset(1));
  written->store(uint64_t{1} << 60);
  Header header;
  std::vector<std::byte> payload;
  EXPECT_FALSE(experts->Receive({Role::kAttention, Rank{0}}, header, payload));
  EXPECT_EQ(experts->dropped(), 1u);
}

TEST(Segment, RefusesAnotherTopologyAndAnotherSize) {
  const TransportLayout layout = LayoutOf(Shape(), 0);
  Segment segment = Allocate(layout);
  EXPECT_TRUE(CheckSegment(segment, layout, layout.self).ok());
  ExchangeShape other = Shape();
  other.max_rows = 3;
  EXPECT_TRUE(Contains(CheckSegment(segment, LayoutOf(other, 0), layout.self).message(),
                       "another topology"));
  other.max_rows = 4000;
  EXPECT_TRUE(Contains(CheckSegment(segment, LayoutOf(other, 0), layout.self).message(), "bytes"));
  segment.base[0] = std::byte{0};
  EXPECT_FALSE(CheckSegment(segment, layout, layout.self).ok());
}

TEST(Segment, EveryPartOfALayoutCountsInItsHash) {
  const TransportLayout layout = LayoutOf(Shape(), 0);
  const uint64_t hash = LayoutHash(layout);
  EXPECT_EQ(LayoutHash(LayoutOf(Shape(), 1)), hash) << "who asks is no part";
  for (int change = 0; change < 6; ++change) {
    ExchangeShape other = Shape();
    other.hidden += change == 0;
    other.top_k += change == 1;
    other.micro_batches += change == 2;
    other.max_rows += change == 3;
    other.m += change == 4;
    other.n += change == 5;
    EXPECT_NE(LayoutHash(LayoutOf(other, 0)), hash) << change;
  }
}

TEST(Segment, SlotsAreAlignedAndDoNotOverlap) {
  ExchangeShape shape = Shape();
  shape.m = 3;
  shape.n = 2;
  shape.hidden = 5;  // a multiple of nothing
  for (int member = 0; member < 5; ++member) {
    const TransportLayout layout = LayoutOf(shape, member);
    const SegmentMap map(layout, layout.self);
    size_t end = map.queue_offset(4);
    for (int slot = 0; slot < map.slots(); ++slot) {
      EXPECT_EQ(map.slot_offset(slot) % 64, 0u);
      EXPECT_GT(map.slot_offset(slot), end);
      end = map.slot_offset(slot) + map.slot_bytes(slot);
    }
    EXPECT_LE(end, map.bytes());
  }
}

}  // namespace
}  // namespace janus::dataplane
