// Runs and tasks of rows as the device finds them, against a loop over the rows.

#include "kernels/cuda/expanded_runs.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/cuda/start.h"
#include "tests/unit/kernels/cuda_order.h"

namespace janus::kernels::cuda {
namespace {

struct Found {
  std::vector<ExpandedRun> runs;
  std::vector<ExpandedTask> tasks;
};

Found ByALoop(const std::vector<KvRow>& rows, int tile) {
  Found found;
  for (size_t t = 0; t < rows.size(); ++t) {
    const auto row = static_cast<int32_t>(t);
    const bool begins = t == 0 || rows[t].block_table != rows[t - 1].block_table;
    if (begins) {
      const int32_t block = found.runs.empty() ? 0 : found.runs.back().end_block;
      found.runs.push_back({row, rows[t].position, block, block});
    }
    ExpandedRun& run = found.runs.back();
    run.last = std::max(run.last, rows[t].position);
    run.end_block = run.first_block + run.last / kKeyBlock + 1;
    if (begins || row % tile == 0) {
      found.tasks.push_back({row, 0, run.first_block, run.first_block});
    }
    ExpandedTask& task = found.tasks.back();
    ++task.rows;
    task.end_block = std::max(task.end_block, run.first_block + rows[t].position / kKeyBlock + 1);
  }
  return found;
}

void ExpectFound(const std::vector<KvRow>& rows, int tile) {
  NextOrder();
  const auto count = static_cast<int64_t>(rows.size());
  struct alignas(64) Line {
    unsigned char of[64];
  };
  std::vector<Line> space(static_cast<size_t>(ExpandedRuns::Bytes(count) / 64) + 1, Line{{0xA5}});
  auto* const runs = reinterpret_cast<ExpandedRuns*>(space.data());
  ASSERT_TRUE(Start("", Stream{}, FindExpandedRunsKernel{rows.data(), count, tile, runs},
                    PlanFindExpandedRuns())
                  .ok());
  EXPECT_EQ(space.back().of[0], 0xA5);
  const Found wanted = ByALoop(rows, tile);
  ASSERT_EQ(runs->runs, wanted.runs.size());
  ASSERT_EQ(runs->tasks, wanted.tasks.size());
  EXPECT_EQ(runs->Blocks(), wanted.runs.back().end_block);
  for (size_t i = 0; i < wanted.runs.size(); ++i) {
    const ExpandedRun& is = runs->Runs()[i];
    const ExpandedRun& run = wanted.runs[i];
    ASSERT_EQ(is.row, run.row) << i;
    ASSERT_EQ(is.last, run.last) << i;
    ASSERT_EQ(is.first_block, run.first_block) << i;
    ASSERT_EQ(is.end_block, run.end_block) << i;
    EXPECT_EQ(&runs->RunOf(run.first_block), &is);
    EXPECT_EQ(&runs->RunOf(run.end_block - 1), &is);
  }
  for (size_t i = 0; i < wanted.tasks.size(); ++i) {
    const ExpandedTask& is = runs->Tasks(count)[i];
    ASSERT_EQ(is.row, wanted.tasks[i].row) << i;
    ASSERT_EQ(is.rows, wanted.tasks[i].rows) << i;
    ASSERT_EQ(is.first_block, wanted.tasks[i].first_block) << i;
    ASSERT_EQ(is.end_block, wanted.tasks[i].end_block) << i;
  }
}

// Runs of lengths up to `longest`, at positions in any order.
std::vector<KvRow> RandomRows(size_t count, int longest, uint64_t seed) {
  static const int32_t tables[3] = {};
  std::mt19937_64 random(seed);
  std::vector<KvRow> rows;
  for (size_t run = 0; rows.size() < count; ++run) {
    const auto length = static_cast<int>(random() % static_cast<uint64_t>(longest)) + 1;
    for (int i = 0; i < length && rows.size() < count; ++i) {
      rows.push_back({&tables[run % 3], static_cast<int32_t>(random() % 3000)});
    }
  }
  return rows;
}

TEST(ExpandedRuns, AreThoseOfALoop) {
  for (const size_t count : {1u, 2u, 63u, 64u, 65u, 255u, 256u, 257u, 511u, 513u, 1000u, 4096u}) {
    for (const int longest : {1, 3, 70, 400, 5000}) {
      for (const int tile : {64, 128}) {
        SCOPED_TRACE(testing::Message() << count << " rows, " << longest << ", " << tile);
        ExpectFound(RandomRows(count, longest, count + static_cast<size_t>(longest)), tile);
      }
    }
  }
}

// The last position of a key block, and the first of the next.
TEST(ExpandedRuns, EndWithTheBlockOfTheirLargestPosition) {
  const int32_t table[1] = {};
  for (const int32_t last : {0, 63, 64, 127, 128}) {
    ExpectFound({{table, 0}, {table, last}, {table, 5}}, 64);
  }
}

}  // namespace
}  // namespace janus::kernels::cuda
