#include "common/cost.h"

#include <algorithm>
#include <cmath>

namespace janus {

double SoftMaximum(double a, double b, double sharpness) {
  const double larger = std::max(a, b);
  const double smaller = std::min(a, b);
  if (larger <= 0) return 0;
  // Scaled by the larger, so that no power overflows or underflows.
  return larger * std::pow(1 + std::pow(smaller / larger, sharpness), 1 / sharpness);
}

double OneExpertSeconds(const ExpertCost& cost, const ExpertShape& shape, double rows) {
  return SoftMaximum(shape.WeightBytes() / cost.bytes_per_second,
                     rows * shape.OperationsPerRow() / cost.operations_per_second, cost.sharpness);
}

double ExpertRoundSeconds(const ExpertCost& cost, const ExpertShape& shape,
                          std::span<const double> rows_of_expert) {
  double seconds = cost.fixed_seconds;
  for (const double rows : rows_of_expert) {
    seconds += rows > 0 ? OneExpertSeconds(cost, shape, rows) : cost.idle_expert_seconds;
  }
  return seconds;
}

double ExpertRoundSeconds(const ExpertCost& cost, const ExpertShape& shape, double activated,
                          double resident, double rows) {
  double seconds =
      cost.fixed_seconds + std::max(resident - activated, 0.0) * cost.idle_expert_seconds;
  if (activated > 0) seconds += activated * OneExpertSeconds(cost, shape, rows / activated);
  return seconds;
}

double CrossoverRows(const ExpertCost& cost, const ExpertShape& shape) {
  return shape.WeightBytes() / cost.bytes_per_second * cost.operations_per_second /
         shape.OperationsPerRow();
}

double GroupedAttentionSeconds(const GroupedAttentionCost& cost, const GroupedShape& shape,
                               double batch, double context, KvCacheState state) {
  const double keys = shape.window > 0 ? std::min(context, shape.window) : context;
  const double bytes = batch * keys * shape.KvBytesPerKey();
  double read = bytes / cost.bytes_per_second;
  if (state == KvCacheState::kWarm && bytes > 0) {
    // A least-recently-used cache has a sharp limit: either everything stays, or almost nothing.
    const double missed = 1 / (1 + std::pow(cost.cache_bytes / bytes, 8));
    read = missed * read + (1 - missed) * bytes / cost.cached_bytes_per_second;
  }
  const double heads =
      batch * shape.head_dim / 128 *
      (shape.kv_heads * cost.kv_head_seconds + shape.heads * cost.query_head_seconds);
  const double compute = batch * keys * shape.heads * shape.head_dim * 2 * cost.operation_seconds;
  return cost.fixed_seconds + std::max(SoftMaximum(read, heads, cost.sharpness), compute) +
         cost.split_seconds * std::log2(1 + keys / 128);
}

double LatentAttentionSeconds(const LatentAttentionCost& cost, double heads, double batch,
                              double context) {
  const double projections =
      SoftMaximum(cost.fixed_seconds + heads * cost.head_seconds,
                  batch * (cost.row_seconds + heads * cost.row_head_seconds), cost.sharpness);
  const double keys = batch * context;
  const double attention =
      SoftMaximum(keys * cost.key_seconds, keys * heads * cost.key_head_seconds, cost.sharpness);
  return projections + attention + cost.split_seconds * std::log2(1 + context / 64);
}

double ExchangeSeconds(const ExchangeCost& cost, const ExchangeLoad& load) {
  const double away = (load.nodes - 1) / load.nodes;
  const double start =
      cost.fixed_seconds + away * cost.network_seconds + load.peers * cost.peer_seconds;
  const double transfer = load.rows * cost.row_seconds +
                          (1 - away) * load.bytes / cost.inner_bytes_per_second +
                          away * load.bytes / cost.network_bytes_per_second;
  return SoftMaximum(start, transfer, cost.sharpness);
}

double CollectiveSeconds(const CollectiveCost& cost, double gpus, double bytes) {
  const auto seconds = [&](const CollectiveCost::Protocol& p) {
    return p.fixed_seconds + gpus * p.peer_seconds + bytes * (gpus - 1) / gpus / p.bytes_per_second;
  };
  return std::min(seconds(cost.latency), seconds(cost.bandwidth));
}

}  // namespace janus
