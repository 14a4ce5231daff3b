#include "cli/screen.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace janus::cli {
namespace {

class ScreenTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe(fds_), 0); }
  void TearDown() override {
    close(fds_[0]);
    close(fds_[1]);
  }
  // The output since the last call.
  std::string Written() {
    char buffer[4096];
    const ssize_t mark = write(fds_[1], "\0", 1);
    EXPECT_EQ(mark, 1);
    const ssize_t got = read(fds_[0], buffer, sizeof(buffer));
    return std::string(buffer, static_cast<size_t>(got - 1));
  }
  int fds_[2];
};

TEST_F(ScreenTest, ShowsNoBlockOutsideATerminal) {
  Screen screen(fds_[1], false);
  screen.Block("table\n");
  screen.Line("line");
  EXPECT_EQ(Written(), "line\n");
}

TEST_F(ScreenTest, DrawsTheBlockOverItself) {
  Screen screen(fds_[1], true);
  screen.Block("a\nb\n");
  EXPECT_EQ(Written(), "a\nb\n");
  screen.Block("c\n");
  EXPECT_EQ(Written(), "\x1b[2A\r\x1b[Jc\n");
}

TEST_F(ScreenTest, KeepsLinesAboveTheBlock) {
  Screen screen(fds_[1], true);
  screen.Block("a\n");
  Written();
  screen.Line("stays");
  EXPECT_EQ(Written(), "\x1b[1A\r\x1b[Jstays\na\n");
  screen.Block("");
  EXPECT_EQ(Written(), "\x1b[1A\r\x1b[J");
}

TEST_F(ScreenTest, CutsLinesThatWouldWrap) {
  Screen screen(fds_[1], true);
  screen.Block("abcdef\ngh\n", {.columns = 4});
  EXPECT_EQ(Written(), "abcd\ngh\n");
}

TEST_F(ScreenTest, LeavesOutLinesThatWouldScrollAway) {
  Screen screen(fds_[1], true);
  screen.Block("a\nb\nc\nd\n", {.rows = 5});
  EXPECT_EQ(Written(), "a\nb\nc\nd\n");
  screen.Block("a\nb\nc\nd\n", {.rows = 4});
  EXPECT_EQ(Written(), "\x1b[4A\r\x1b[Ja\nb\n... 2 more lines\n");
  screen.Block("a\nb\n", {.rows = 1});
  EXPECT_EQ(Written(), "\x1b[3A\r\x1b[J... 2 more lines\n");
}

}  // namespace
}  // namespace janus::cli
