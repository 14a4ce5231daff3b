#include "dataplane/attention/part_graphs.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "dataplane/attention/row_buckets.h"

namespace janus::dataplane {

PartGraphs::PartGraphs(int layers, int parts, int most_rows, int room)
    : layers_(layers), parts_(parts), buckets_(RowBuckets(most_rows, room)) {}

int PartGraphs::RowsFor(int rows) const {
  const auto bucket = std::lower_bound(buckets_.begin(), buckets_.end(), rows);
  return bucket == buckets_.end() ? 0 : *bucket;
}

size_t PartGraphs::IndexOf(PartWork work, int layer, int part, size_t bucket) const {
  const auto at = static_cast<size_t>((static_cast<int>(work) * layers_ + layer) * parts_ + part);
  return at * buckets_.size() + bucket;
}

Status PartGraphs::Record(kernels::Context& context, PartWork work, HasWork has, StartPart start) {
  graphs_.resize(IndexOf(PartWork::kLayer, kPartWorks * layers_, 0, 0));
  for (int layer = 0; layer < layers_; ++layer) {
    if (!has(layer)) continue;
    for (int part = 0; part < parts_; ++part) {
      for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
        const int rows = buckets_[bucket];
        Result<std::unique_ptr<kernels::Graph>> graph = context.RecordGraph(
            [&](const kernels::Stream& on) { return start(on, layer, part, rows); });
        if (!graph.ok()) {
          return std::move(graph).status().Annotate("recording layer " + std::to_string(layer) +
                                                    " for " + std::to_string(rows) + " rows");
        }
        graphs_[IndexOf(work, layer, part, bucket)] = *std::move(graph);
      }
    }
  }
  return OkStatus();
}

Status PartGraphs::Replay(kernels::Context& context, PartWork work, int layer, int part,
                          int rows) const {
  const auto bucket = std::lower_bound(buckets_.begin(), buckets_.end(), rows);
  JANUS_CHECK(bucket != buckets_.end() && *bucket == rows, rows);
  return context.Replay(
      *graphs_[IndexOf(work, layer, part, static_cast<size_t>(bucket - buckets_.begin()))]);
}

}  // namespace janus::dataplane
