#include "dataplane/worker/prepare_board.h"

#include <gtest/gtest.h>

namespace janus::dataplane {
namespace {

constexpr MonotonicTime At(int seconds) {
  return MonotonicTime(std::chrono::seconds(seconds));
}

v1::PrepareProgress Said(const std::string& phase, uint64_t done = 0, uint64_t total = 0) {
  v1::PrepareProgress progress;
  progress.set_phase(phase);
  progress.set_bytes_done(done);
  progress.set_bytes_total(total);
  return progress;
}

std::vector<std::string> WaitingFor(const PrepareBoard& board) {
  const v1::PrepareProgress sum = board.Summary();
  return {sum.waiting_for().begin(), sum.waiting_for().end()};
}

TEST(PrepareBoardTest, BytesAreSummedOnceEveryMemberHasSaidHowManyItHas) {
  PrepareBoard board({"a", "b"}, At(0));
  board.Heard(0, Said("weights", 10, 100), At(1));
  EXPECT_EQ(board.Summary().bytes_total(), 0U);
  board.Heard(1, Said("weights", 0, 50), At(1));
  EXPECT_EQ(board.Summary().bytes_done(), 10U);
  EXPECT_EQ(board.Summary().bytes_total(), 150U);
  board.Heard(0, Said("connect"), At(2));
  EXPECT_EQ(board.Summary().bytes_total(), 150U) << "a phase without bytes leaves them";
  EXPECT_EQ(board.Summary().phase(), "weights") << "the service loads while one does";
  board.Ended(1, OkStatus(), false);
  EXPECT_EQ(board.Summary().bytes_done(), 60U);
  EXPECT_EQ(board.Summary().phase(), "connect");
}

TEST(PrepareBoardTest, NamesWhomItWaitsForLongestSilentFirst) {
  PrepareBoard board({"a", "b", "c"}, At(0));
  board.Heard(0, Said("connect"), At(5));
  board.Heard(2, Said("weights", 1, 2), At(3));
  EXPECT_EQ(WaitingFor(board), (std::vector<std::string>{"b", "c (weights)", "a (connect)"}));
  board.Ended(2, OkStatus(), false);
  EXPECT_EQ(WaitingFor(board), (std::vector<std::string>{"b", "a (connect)"}));
}

TEST(PrepareBoardTest, OfManyItNamesFour) {
  EXPECT_EQ(WaitingFor(PrepareBoard({"a", "b", "c", "d", "e", "f"}, At(0))).size(), 4U);
}

TEST(PrepareBoardTest, ACauseComesBeforeALostConnectionAndWhatWeCancelledIsNone) {
  PrepareBoard board({"a", "b", "c", "d"}, At(0));
  board.Ended(0, Unavailable("socket closed"), false);
  EXPECT_TRUE(board.failed());
  EXPECT_FALSE(board.done());
  board.Ended(1, OkStatus(), false);
  board.Ended(2, ResourceExhausted("no room"), false);
  board.Ended(3, Cancelled("as asked"), true);
  EXPECT_TRUE(board.done());
  const std::vector<v1::MemberFailure> failures = board.Failures();
  ASSERT_EQ(failures.size(), 2U);
  EXPECT_EQ(failures[0].name(), "c");
  EXPECT_EQ(failures[0].code(), static_cast<uint32_t>(StatusCode::kResourceExhausted));
  EXPECT_EQ(failures[0].message(), "no room");
  EXPECT_EQ(failures[1].name(), "a");
}

}  // namespace
}  // namespace janus::dataplane
