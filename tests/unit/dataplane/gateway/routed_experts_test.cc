#include "dataplane/gateway/routed_experts.h"

#include <gtest/gtest.h>

#include <cstring>

#include "common/base64.h"

namespace janus::gateway {
namespace {

std::vector<int32_t> IdsIn(const std::string& text) {
  const std::string bytes = DecodeBase64(text).value();
  std::vector<int32_t> ids(bytes.size() / sizeof(int32_t));
  std::memcpy(ids.data(), bytes.data(), bytes.size());
  return ids;
}

TEST(RoutedExperts, AreNumbersOf32BitsInBase64) {
  RoutedExperts experts(3, 2);
  EXPECT_EQ(experts.Put(3, std::vector<uint16_t>{1, 0xFFFF, 2, 300}).value(),
            4 * RoutedExperts::kBytesOfId);
  EXPECT_EQ(experts.TextTo(5).value(), "AQAAAP////8CAAAALAEAAA==");
  EXPECT_EQ(IdsIn(*experts.TextTo(4)), (std::vector<int32_t>{1, -1})) << "cut by a stop string";
  EXPECT_EQ(experts.TextTo(3).value(), "");
  EXPECT_EQ(experts.TextTo(2).value(), "") << "the answer ends before the first position";
}

TEST(RoutedExperts, APieceMayComeTwiceButNoneMayBeLeftOut) {
  RoutedExperts experts(0, 1);
  EXPECT_EQ(experts.Put(0, std::vector<uint16_t>{4, 5}).value(), 2 * RoutedExperts::kBytesOfId);
  EXPECT_EQ(experts.Put(1, std::vector<uint16_t>{5, 6}).value(), RoutedExperts::kBytesOfId);
  EXPECT_EQ(IdsIn(*experts.TextTo(3)), (std::vector<int32_t>{4, 5, 6}));
  EXPECT_EQ(experts.Put(4, std::vector<uint16_t>{7}).status().code(), StatusCode::kInternal);
  EXPECT_EQ(experts.TextTo(4).status().code(), StatusCode::kInternal);
}

TEST(RoutedExperts, LongTextsArePutTogetherFromPieces) {
  RoutedExperts experts(0, 1);
  std::vector<uint16_t> ids;
  std::vector<int32_t> wanted;
  for (int i = 0; i < 10'001; ++i) {
    ids.push_back(static_cast<uint16_t>(i));
    wanted.push_back(i);
  }
  ASSERT_TRUE(experts.Put(0, ids).ok());
  EXPECT_EQ(IdsIn(*experts.TextTo(10'001)), wanted);
}

}  // namespace
}  // namespace janus::gateway
