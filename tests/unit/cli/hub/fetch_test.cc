#include "cli/hub/fetch.h"

#include <gtest/gtest.h>

namespace janus::cli {
namespace {

using hub::Progress;

TEST(Fetch, DescribesADownload) {
  Progress::State state;
  EXPECT_EQ(DescribeDownload("a/b", state, Seconds(0)), "asking the hub for a/b");
  state = {.phase = Progress::Phase::kWeights,
           .files_total = 3,
           .files_done = 1,
           .bytes_total = 4'000'000'000,
           .bytes_done = 1'000'000'000};
  EXPECT_EQ(DescribeDownload("a/b", state, Seconds(10)),
            "downloading a/b: 25 % of 4.0 GB, file 2 of 3");
  // The rate is of what was fetched, not of what lay there.
  state.bytes_fetched = 500'000'000;
  EXPECT_EQ(DescribeDownload("a/b", state, Seconds(10)),
            "downloading a/b: 25 % of 4.0 GB, 50 MB/s, file 2 of 3");
  state.waiting = 2;
  EXPECT_EQ(DescribeDownload("a/b", state, Seconds(10)),
            "downloading a/b: 25 % of 4.0 GB, 50 MB/s, file 2 of 3; another process downloads 2 of "
            "them");
  state.files_done = 3;
  state.bytes_total = 0;
  state.waiting = 0;
  EXPECT_EQ(DescribeDownload("a/b", state, Seconds(0)),
            "downloading a/b: 100 % of 0 B, file 3 of 3");
}

}  // namespace
}  // namespace janus::cli
