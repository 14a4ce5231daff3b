#include "common/topology.h"

#include <gtest/gtest.h>

namespace janus {
namespace {

constexpr uint16_t kEmpty = Placement::kEmpty;

struct Case {
  const char* name;
  Placement placement;
  const char* message;  // part of the refusal; empty: valid
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class PlacementTest : public testing::TestWithParam<Case> {};

TEST_P(PlacementTest, IsJudged) {
  const Status status = Validate(GetParam().placement, 1, 3);
  if (*GetParam().message == '\0') {
    EXPECT_TRUE(status.ok()) << status.ToString();
  } else {
    EXPECT_NE(status.message().find(GetParam().message), std::string::npos) << status.ToString();
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PlacementTest,
    testing::Values(
        Case{"UnevenWithSpare", {1, {1, 3}, {0, 1, 2, kEmpty}}, ""},
        Case{"ReplicaElsewhere", {1, {2, 2}, {0, 1, 2, 0}}, ""},
        Case{"TwiceOnOneInstance", {1, {2, 2}, {0, 0, 1, 2}}, "a second replica of expert 0"},
        Case{"MissingExpert", {1, {2, 2}, {0, 1, 1, kEmpty}}, "expert 2 has no replica"},
        Case{"UnknownExpert", {1, {2, 2}, {0, 1, 2, 3}}, "slot 3: expert 3"},
        Case{"WrongSize", {1, {2, 2}, {0, 1, 2}}, "3 entries"},
        Case{"WrongLayers", {2, {3}, {0, 1, 2, 0, 1, 2}}, "2 layers"}),
    [](const auto& info) { return info.param.name; });

TEST(Placement, FindsSlotsOfAnInstance) {
  const Placement placement{2, {1, 3}, {0, 1, 2, kEmpty, 2, 1, 0, kEmpty}};
  EXPECT_EQ(placement.first_slot(Rank{1}), 1);
  EXPECT_EQ(placement.at(1, 0), 2);
}

}  // namespace
}  // namespace janus
