#include "common/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace janus {
namespace {

Result<int> Half(int x) {
  if (x % 2 != 0) return InvalidArgument("odd: " + std::to_string(x));
  return x / 2;
}

Result<int> Quarter(int x) {
  JANUS_ASSIGN_OR_RETURN(const int half, Half(x));
  JANUS_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

TEST(Status, AnnotatesLikeAPath) {
  const Status s = Quarter(6).status().Annotate("quarter").Annotate("load");
  EXPECT_EQ(s.ToString(), "InvalidArgument: load: quarter: odd: 3");
  EXPECT_EQ(OkStatus().Annotate("load").ToString(), "OK");
}

TEST(Result, CarriesTheValueOrTheReason) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(7).status().code(), StatusCode::kInvalidArgument);
}

TEST(Result, MovesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> made = std::make_unique<int>(7);
  const std::unique_ptr<int> taken = std::move(made).value();
  EXPECT_EQ(*taken, 7);
}

TEST(ResultDeathTest, RefusesToInventAValue) {
  EXPECT_DEATH((void)*Half(3), "odd: 3");
}

}  // namespace
}  // namespace janus
