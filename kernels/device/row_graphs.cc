#include "kernels/device/row_graphs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/check.h"
#include "kernels/device/row_buckets.h"

namespace janus::kernels {

RowGraphs::RowGraphs(size_t pieces, int most_rows, int room)
    : buckets_(RowBuckets(most_rows, room)), graphs_(pieces * buckets_.size()) {}

int RowGraphs::RowsFor(int rows) const {
  const auto bucket = std::lower_bound(buckets_.begin(), buckets_.end(), rows);
  return bucket == buckets_.end() ? 0 : *bucket;
}

Status RowGraphs::Record(Context& context, size_t piece, Start start) {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const int rows = buckets_[i];
    Result<std::unique_ptr<Graph>> graph =
        context.RecordGraph([&](const Stream& on) { return start(on, rows); });
    if (!graph.ok()) {
      return std::move(graph).status().Annotate("recording launches for " + std::to_string(rows) +
                                                " rows");
    }
    graphs_[piece * buckets_.size() + i] = *std::move(graph);
  }
  return OkStatus();
}

Status RowGraphs::Replay(Context& context, size_t piece, int rows) const {
  const auto bucket = std::lower_bound(buckets_.begin(), buckets_.end(), rows);
  JANUS_CHECK(bucket != buckets_.end() && *bucket == rows, rows);
  const size_t at = piece * buckets_.size() + static_cast<size_t>(bucket - buckets_.begin());
  return context.Replay(*graphs_[at]);
}

}  // namespace janus::kernels
