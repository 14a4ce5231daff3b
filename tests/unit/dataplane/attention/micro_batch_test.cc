#include "dataplane/attention/micro_batch.h"

#include <gtest/gtest.h>

namespace janus::dataplane {
namespace {

TEST(MicroBatch, PartsFollowEachOtherAndDifferByOneRowAtMost) {
  for (int b = 1; b <= 4; ++b) {
    for (int turn = 0; turn < b; ++turn) {
      for (int rows = 0; rows <= 9; ++rows) {
        int next = 0;
        for (int i = 0; i < b; ++i) {
          const Part part = MicroBatch(rows, i, b, turn);
          EXPECT_EQ(part.first, next);
          EXPECT_GE(part.rows, rows / b);
          EXPECT_LE(part.rows, (rows + b - 1) / b);
          next += part.rows;
        }
        EXPECT_EQ(next, rows);
      }
    }
  }
}

TEST(MicroBatch, InstancesWithOneSequenceEachFillAllParts) {
  for (int b = 1; b <= 4; ++b) {
    for (int i = 0; i < b; ++i) {
      int rows = 0;
      for (int turn = 0; turn < b; ++turn) rows += MicroBatch(1, i, b, turn).rows;
      EXPECT_EQ(rows, 1);
    }
  }
}

}  // namespace
}  // namespace janus::dataplane
