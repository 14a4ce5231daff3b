#include "dataplane/comm/exchange/node_sums.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/unit/dataplane/comm/exchange/members.h"

namespace janus::dataplane {
namespace {

constexpr int kBits = 24;

ExchangeShape Shape() {
  return ShapeFor(1, 2, 1, 4, Compression::kNone, {kBits, {}});  // hidden 12, top-2
}

// A message of one expert instance; every element of a sum has the same value.
struct Message {
  Message(std::vector<ContributionRef> refs, const std::vector<int32_t>& sums, int64_t ready = 0)
      : bytes(SummedBytes(refs.size(), sums.size(), SumBytes(kBits, 12)) / 4 + 1) {
    auto* const at = reinterpret_cast<std::byte*>(bytes.data());
    if (!refs.empty()) std::memcpy(at, refs.data(), refs.size() * sizeof(ContributionRef));
    auto* to = reinterpret_cast<unsigned char*>(at + ContributionRowsOffset(refs.size()));
    for (const int32_t sum : sums) {
      for (int h = 0; h < 12; ++h, to += kBits / 8) StoreFixed(to, sum, kBits);
    }
    header =
        MakeHeader(MessageKind::kContributions, KeyOf(1), 0, static_cast<uint32_t>(refs.size()));
    header.bytes = payload_bytes = SummedBytes(refs.size(), sums.size(), SumBytes(kBits, 12));
    header.ready_ns = ready;
  }
  SlotMessage slot() const {
    return {header, {reinterpret_cast<const std::byte*>(bytes.data()), payload_bytes}};
  }
  std::vector<uint32_t> bytes;  // in words, so that references are aligned
  Header header;
  size_t payload_bytes = 0;
};

struct Added {
  bool is_good = false;
  Header header;
  std::vector<std::byte> payload = std::vector<std::byte>(4096);
};
Added Add(const std::vector<Message>& messages, size_t room = 4096) {
  std::vector<SlotMessage> taken;
  for (const Message& message : messages) taken.push_back(message.slot());
  std::vector<const SlotMessage*> slots;
  for (const SlotMessage& one : taken) slots.push_back(&one);
  NodeSums sums(Shape(), slots.size());
  Added added;
  added.is_good = sums.Add(slots, std::span(added.payload).first(room), added.header);
  return added;
}

TEST(NodeSums, AddsTheRowsThatSeveralInstancesHave) {
  const Added added =
      Add({Message({{0, 1, 7}, {2, 0, 8}}, {10, -3}, 5),
           Message({{0, 0, 9}, {1, 0, 6}, {1, 1, 5}}, {100, 20}, 9), Message({}, {})});
  ASSERT_TRUE(added.is_good);
  EXPECT_EQ(added.header.count, 5u);
  EXPECT_EQ(added.header.bytes, SummedBytes(5, 3, SumBytes(kBits, 12)));
  EXPECT_EQ(added.header.ready_ns, 9) << "of the last";
  std::vector<ContributionRef> refs(5);
  std::memcpy(refs.data(), added.payload.data(), 5 * sizeof(ContributionRef));
  const std::vector<std::vector<int>> want = {
      {0, 1, 7}, {0, 0, 9}, {1, 0, 6}, {1, 1, 5}, {2, 0, 8}};
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ((std::vector<int>{refs[i].row, refs[i].slot, refs[i].expert}), want[i]) << i;
  }
  const auto* at =
      reinterpret_cast<const unsigned char*>(added.payload.data() + ContributionRowsOffset(5));
  for (const int32_t sum : {110, 20, -3}) {
    for (int h = 0; h < 12; ++h, at += kBits / 8) EXPECT_EQ(LoadFixed(at, kBits), sum);
  }
}

TEST(NodeSums, RefuseMessagesThatMakeNoSense) {
  EXPECT_FALSE(Add({Message({{1, 0, 0}, {0, 0, 0}}, {1, 2})}).is_good) << "rows backwards";
  EXPECT_FALSE(Add({Message({{0, 0, 0}, {1, 0, 0}}, {1})}).is_good) << "a sum is missing";
  EXPECT_FALSE(Add({Message({{0, 0, 0}, {0, 1, 0}}, {1, 2})}).is_good) << "a sum too many";
  EXPECT_FALSE(Add({Message(std::vector<ContributionRef>(9), {1})}).is_good) << "too many";
  EXPECT_FALSE(Add({Message(std::vector<ContributionRef>(5), {1}),
                    Message(std::vector<ContributionRef>(4), {1})})
                   .is_good)
      << "too many together";
  Message cut({{0, 0, 0}}, {1});
  --cut.payload_bytes;
  EXPECT_FALSE(Add({cut}).is_good) << "part of a sum";
  cut.payload_bytes = 3;
  EXPECT_FALSE(Add({cut}).is_good) << "part of the references";
}

TEST(NodeSums, RefuseWhatDoesNotFit) {
  const std::vector<Message> messages = {Message({{0, 0, 0}, {1, 0, 0}}, {1, 2})};
  const size_t bytes = SummedBytes(2, 2, SumBytes(kBits, 12));
  EXPECT_TRUE(Add(messages, bytes).is_good);
  EXPECT_FALSE(Add(messages, bytes - 1).is_good);
  EXPECT_FALSE(Add(messages, 63).is_good);
}

}  // namespace
}  // namespace janus::dataplane
