// Into which tasks the rows of a call fall: runs, splits, and where the workspace holds their
// states.

#include "kernels/cuda/attention_tasks.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/start.h"
#include "tests/unit/kernels/cuda_order.h"

namespace janus::kernels::cuda {
namespace {

struct Found {
  std::vector<int> state;  // [rows]
  // Of each task in turn.
  std::vector<int> row;
  std::vector<int> rows;
  bool operator==(const Found&) const = default;
  friend void PrintTo(const Found& f, std::ostream* out) {
    *out << testing::PrintToString(f.state) << testing::PrintToString(f.row)
         << testing::PrintToString(f.rows);
  }
};

struct FindKernel {
  [[maybe_unused]] static constexpr int kThreads = kTaskThreads;
  PagedAttentionArgs a;
  int most;
  int64_t states;
  Found* found;
  template <class Block>
  void operator()(Block& block) const {
    auto& tasks = *reinterpret_cast<AttentionTasks*>(block.shared());
    const auto rows = static_cast<int>(a.num_rows);
    tasks.Find(block, {a.rows, rows, a.sliding_window, most}, states,
               *reinterpret_cast<AttentionTasks::Scratch*>(&tasks + 1));
    found->state.assign(tasks.state, tasks.state + rows);
    for (int i = 0; i < tasks.task[rows]; ++i) {
      found->row.push_back(tasks.RowOf(i, rows));
      found->rows.push_back(tasks.RowsOf(found->row.back(), rows));
    }
  }
};

struct At {
  int sequence;
  int position;
};

Found Find(const std::vector<At>& rows, int most, int64_t states, int window = 0) {
  static const int32_t tables[1000] = {};
  std::vector<KvRow> list;
  for (const At& row : rows) list.push_back({tables + row.sequence, row.position});
  PagedAttentionArgs a;
  a.rows = list.data();
  a.num_rows = static_cast<int64_t>(list.size());
  a.sliding_window = window;
  Found found;
  NextOrder();
  constexpr int64_t kBytes = sizeof(AttentionTasks) + sizeof(AttentionTasks::Scratch);
  EXPECT_TRUE(
      Start("Find", Stream{}, FindKernel{a, most, states, &found}, {1, kTaskThreads, kBytes, 0, 0})
          .ok());
  return found;
}

TEST(AttentionTasks, AreOneForARowOfOneSplit) {
  EXPECT_EQ(Find({{0, 0}}, 4, 100), (Found{{-1}, {0}, {1}}));
  EXPECT_EQ(Find({{0, 1023}, {1, 5}}, 4, 100), (Found{{-1, -1}, {0, 1}, {1, 1}}));
}

TEST(AttentionTasks, AreOneForEachSplitThatTheWorkspaceHolds) {
  const std::vector<At> rows = {{0, 1024}, {1, 100}, {2, 3000}};
  EXPECT_EQ(Find(rows, 4, 5), (Found{{0, -1, 2}, {0, 0, 1, 2, 2, 2}, {1, 1, 1, 1, 1, 1}}));
  EXPECT_EQ(Find(rows, 4, 4), (Found{{0, -1, -1}, {0, 0, 1, 2}, {1, 1, 1, 1}}));
  EXPECT_EQ(Find(rows, 4, 1), (Found{{-1, -1, -1}, {0, 1, 2}, {1, 1, 1}}));
  EXPECT_EQ(Find(rows, 4, 0), (Found{{-1, -1, -1}, {0, 1, 2}, {1, 1, 1}}));
}

TEST(AttentionTasks, AreOfNeighboursOfASequenceThatATileHolds) {
  const std::vector<At> rows = {{0, 7}, {0, 8}, {0, 9}, {0, 10}, {0, 11}, {1, 4}, {0, 12}, {0, 13}};
  EXPECT_EQ(Find(rows, 4, 0).row, (std::vector<int>{0, 4, 5, 6}));
  EXPECT_EQ(Find(rows, 4, 0).rows, (std::vector<int>{4, 1, 1, 2}));
  EXPECT_EQ(Find(rows, 1, 0).rows, std::vector<int>(8, 1));
  EXPECT_EQ(Find(rows, 3, 0).row, (std::vector<int>{0, 3, 5, 6}));
}

// Over the end of a split: the first row has one, yet its state is one of the run's.
TEST(AttentionTasks, OfARunAreForTheSplitsOfAllOfItsRows) {
  EXPECT_EQ(Find({{0, 1023}, {0, 1024}}, 4, 3), (Found{{0, 1}, {0, 0}, {2, 2}}));
  EXPECT_EQ(Find({{0, 1023}, {0, 1024}}, 4, 2), (Found{{-1, -1}, {0}, {2}}));
}

TEST(AttentionTasks, AreForTheSplitsWithinTheWindow) {
  EXPECT_EQ(Find({{0, 5000}}, 4, 9, 881), (Found{{-1}, {0}, {1}}));  // keys 4120..5000
  EXPECT_EQ(Find({{0, 5000}}, 4, 9, 1000), (Found{{0}, {0, 0}, {1, 1}}));
  EXPECT_EQ(Find({{0, 5000}}, 4, 9, 5001).row.size(), 5u);
  EXPECT_EQ(Find({{0, 5000}}, 4, 9, 9000).row.size(), 5u);
}

TEST(AttentionTasks, CoverEveryRowOfALargeCall) {
  for (const int count : {127, 128, 129, 500, kTaskRows}) {
    std::vector<At> rows;
    for (int t = 0; t < count; ++t) rows.push_back({t, t % 3 == 0 ? 5000 : 10});
    const Found found = Find(rows, 4, 1 << 20);
    std::vector<int> wanted;
    for (int t = 0; t < count; ++t) wanted.insert(wanted.end(), t % 3 == 0 ? 5 : 1, t);
    EXPECT_EQ(found.row, wanted);
    for (int t = 0; t < count; ++t) {
      EXPECT_EQ(found.state[static_cast<size_t>(t)], t % 3 == 0 ? t / 3 * 5 : kNoState);
    }
  }
}

}  // namespace
}  // namespace janus::kernels::cuda
