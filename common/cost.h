#pragma once

#include <span>

namespace janus {

// How long one operation of one layer takes on one instance: the forms T(op, shape; coefficients).
// Coefficients are plain numbers of one device and one kernel; controllers/fit finds them from
// measurements, and workers get them in Prepare. Seconds, bytes and operations throughout; every
// function is pure, and non-negative arguments give a non-negative time.

// The time of work bound by `a` or by `b`, whichever is longer, with a smooth transition: (a^p +
// b^p)^(1/p) with p = sharpness >= 1. p = 1 adds them (no overlap); a large p takes the larger one.
double SoftMaximum(double a, double b, double sharpness);

// Experts -----------------------------------------------------------------------------------------

// One gated FFN: gate, up and down projection of hidden x intermediate each.
struct ExpertShape {
  double hidden = 0;            // H
  double intermediate = 0;      // I
  double bytes_per_weight = 2;  // 1 for fp8, 17/32 for mxfp4 with its scales
  int tensor_parallel = 1;      // the weights and operations of one GPU are 1/tp of it

  double WeightBytes() const {
    return 3 * hidden * intermediate * bytes_per_weight / tensor_parallel;
  }
  double OperationsPerRow() const { return 6 * hidden * intermediate / tensor_parallel; }
};

struct ExpertCost {
  double fixed_seconds = 0;          // launches, activation, scatter and gather of a round
  double bytes_per_second = 1;       // at which weights are read
  double operations_per_second = 1;  // at which rows are computed
  double idle_expert_seconds = 0;    // of a resident expert without rows
  double sharpness = 1;              // of the soft maximum of read and compute, per expert
};

// One expert with `rows` rows, alone: reading its weights and computing its rows. rows > 0.
double OneExpertSeconds(const ExpertCost& cost, const ExpertShape& shape, double rows);

// A round of one instance: rows_of_expert[i] rows for its i-th resident expert. An expert with 0
// rows is idle, and its weights are not read. In decode reading dominates (time follows the number
// of activated experts), in large rounds the rows do.
double ExpertRoundSeconds(const ExpertCost& cost, const ExpertShape& shape,
                          std::span<const double> rows_of_expert);

// The same with `rows` rows spread evenly over `activated` of `resident` experts. All may be
// fractional (expected values). activated <= resident.
double ExpertRoundSeconds(const ExpertCost& cost, const ExpertShape& shape, double activated,
                          double resident, double rows);

// Rows of one expert at which computing them takes as long as reading its weights: the crossover
// from the activated-expert regime to the token regime.
double CrossoverRows(const ExpertCost& cost, const ExpertShape& shape);

// Attention over keys and values ------------------------------------------------------------------

// Grouped-query attention of one GPU (heads after tensor parallelism).
struct GroupedShape {
  double heads = 0;
  double kv_heads = 0;
  double head_dim = 0;
  double bytes_per_value = 2;  // of the KV cache
  double window = 0;           // keys a row sees at most; 0: all

  double KvBytesPerKey() const { return 2 * kv_heads * head_dim * bytes_per_value; }
};

struct GroupedAttentionCost {
  double fixed_seconds = 0;
  double bytes_per_second = 1;         // of keys and values out of device memory
  double cached_bytes_per_second = 1;  // if all of them stay in the last-level cache
  double cache_bytes = 0;              // size of that cache
  double kv_head_seconds = 0;          // per row and kv head, at head_dim 128
  double query_head_seconds = 0;       // per row and query head, at head_dim 128
  double operation_seconds = 0;        // per multiply-add pair of q.k and p.v
  double split_seconds = 0;            // per doubling of the context beyond 128 keys
  double sharpness = 1;
};

// Measurements that repeat one call find small caches warm. In serving, the other layers have used
// the cache since, so plans use kCold.
enum class KvCacheState { kCold, kWarm };

// Decode kernel: `batch` rows, each with `context` keys.
double GroupedAttentionSeconds(const GroupedAttentionCost& cost, const GroupedShape& shape,
                               double batch, double context, KvCacheState state);

// Multi-head latent attention of a whole module in decode (projections included), absorbed form.
// `heads` of one GPU. The latent cache is shared by all heads.
struct LatentAttentionCost {
  double fixed_seconds = 0;
  double head_seconds = 0;      // weights of one head's projections
  double row_seconds = 0;       // per row: projections that all heads share
  double row_head_seconds = 0;  // per row and head
  double key_seconds = 0;       // per row and key: reading the latent
  double key_head_seconds = 0;  // per row, key and head: computing
  double split_seconds = 0;     // per doubling of the context beyond 64 keys
  double sharpness = 1;
};

double LatentAttentionSeconds(const LatentAttentionCost& cost, double heads, double batch,
                              double context);

// Exchange ----------------------------------------------------------------------------------------

// One direction of an exchange between all pairs, in which every instance sends as much as it
// receives. All bytes leave through the instance's own link, and the share `1 - 1/nodes` of them
// through its network card.
struct ExchangeCost {
  double fixed_seconds = 0;             // one hop inside a node
  double network_seconds = 0;           // additional, in proportion to peers on other nodes
  double peer_seconds = 0;              // per expert (signal) that the kernel waits for
  double inner_bytes_per_second = 1;    // inside a node
  double network_bytes_per_second = 1;  // between nodes, per instance
  double row_seconds = 0;               // per row, independent of its size
  double sharpness = 1;
};

struct ExchangeLoad {
  double rows = 0;   // that the instance sends (or receives)
  double bytes = 0;  // of all copies of them
  double peers = 0;  // signals waited for
  double nodes = 1;
};

double ExchangeSeconds(const ExchangeCost& cost, const ExchangeLoad& load);

// A collective inside a node: the library runs the faster of two protocols, one quick to start
// (latency), one that fills the links (bandwidth).
struct CollectiveCost {
  struct Protocol {
    double fixed_seconds = 0;
    double peer_seconds = 0;      // per GPU of the group
    double bytes_per_second = 1;  // of (g - 1) / g of the message
  };
  Protocol latency;
  Protocol bandwidth;
};

// `bytes`: the message as NCCL counts it, `gpus` >= 2.
double CollectiveSeconds(const CollectiveCost& cost, double gpus, double bytes);

}  // namespace janus
