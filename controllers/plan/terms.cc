#include "controllers/plan/terms.h"

#include <algorithm>
#include <cmath>

#include "common/fixed_point.h"
#include "common/pools.h"
#include "controllers/exchange/counts.h"

namespace janus::controllers {
namespace {

// A projection of `weights` parameters over `rows` rows on one GPU, limited by reads or by
// arithmetic, with the efficiencies of the fitted expert kernel.
double DenseSeconds(const DeviceCosts& device, const ModelShape& model, double weights,
                    double rows) {
  return SoftMaximum(weights * model.DenseBytesPerWeight() / device.experts.bytes_per_second,
                     2 * weights * rows / device.experts.operations_per_second,
                     device.experts.sharpness);
}

// Latent attention was measured for DeepSeek-V3's module in fp8. For another model, the projections
// scale with its weights; the part over keys stays (same latent).
LatentAttentionCost LatentCostOf(const DeviceCosts& device, const ModelShape& model) {
  static const ModelShape measured = *FindModel("deepseek-v3");
  LatentAttentionCost cost = device.latent;
  const double weights = model.head_weights / measured.head_weights;
  const double arithmetic = device.hardware.OperationsPerSecond(measured.bytes_per_weight) /
                            device.hardware.OperationsPerSecond(model.DenseBytesPerWeight());
  cost.head_seconds *= weights * model.DenseBytesPerWeight() / measured.bytes_per_weight;
  cost.row_head_seconds *= weights * arithmetic;
  cost.row_seconds *= model.shared_weights / measured.shared_weights * arithmetic;
  return cost;
}

// Latent attention of prompts runs in the expanded form: queries and keys of 128 + 64, values of
// 128.
constexpr double kExpandedQueryWidth = 128 + 64;
constexpr double kExpandedValueWidth = 128;

// How many standard deviations the largest of n normal values is above their mean. Exact within
// 0.065 for 2 to 64.
double LargestOf(int n) {
  return std::sqrt(2 * std::log(n)) - 0.6;
}

// Experts that the busiest instance reads. Each instance has `slots` slots, and R is the mean
// number of replicas of an expert. An instance reads each slot with probability activated / E / R.
// The spread by chance is mean (1 - that), and the largest of n counts. Without spare slots there
// is nothing to choose; with half as many again AEBS ends half an expert above the mean; between
// these it is interpolated (routing_bench schedule;
// tests/unit/controllers/plan/performance_test.cc).
double BusiestActivated(const Setting& setting, const Configuration& how, double activated,
                        double slots) {
  const double mean = activated / how.n;
  if (how.n == 1) return activated;
  const double replicas = std::max(slots * how.n / setting.model.experts, 1.0);
  const double share = activated / setting.model.experts;
  const auto chance = [&](double of) {
    return std::max(LargestOf(how.n), 0.0) * std::sqrt(mean * std::max(1 - share / of, 0.0));
  };
  constexpr double kScheduled = 0.5;
  const double left = std::max(1 - 2 * (replicas - 1), 0.0);
  const double over =
      how.is_random ? chance(replicas) : kScheduled + left * std::max(chance(1) - kScheduled, 0.0);
  // An instance with a row reads a whole expert. Rounds may have no row, so the mean can be below
  // one.
  const double least = 1 - std::exp(-activated);
  return std::min({std::max(mean + over, least), activated, std::max(slots, 1.0)});
}

// A link's costs if both its ends are in one node: there is no network to cross.
ExchangeCost InsideNode(const ExchangeCost& cost) {
  ExchangeCost inside = cost;
  inside.network_seconds = 0;
  inside.network_bytes_per_second = cost.inner_bytes_per_second;
  return inside;
}

// Whether both modules are in one node, so that rows stay on its inner links.
bool IsInOneNode(const Setting& setting, const Configuration& how) {
  return setting.shares_node && setting.attention.hardware.name == setting.experts.hardware.name &&
         how.m * how.tp_attention + how.n * how.tp_experts <=
             setting.attention.hardware.instances_per_node;
}

}  // namespace

double HopSeconds(const ExchangeCost& cost, double messages, double card_bytes) {
  constexpr double kMessageSeconds = 1e-6;  // to post one more message (assumed, not fitted)
  return cost.fixed_seconds + cost.network_seconds + messages * kMessageSeconds +
         card_bytes / cost.network_bytes_per_second;
}

double InstancesNeeded(const ModelShape& model, int n) {
  const double experts = model.experts;
  return n * NeededShare(experts, model.top_k, experts / n);
}

double AllReduceSeconds(const DeviceCosts& device, int gpus, double bytes) {
  if (gpus < 2) return 0;
  const int per_node = device.hardware.instances_per_node;
  const double inside = CollectiveSeconds(device.all_reduce, std::min(gpus, per_node), bytes);
  if (gpus <= per_node) return inside;
  // Between nodes, every card reduces and gathers its share of the message.
  const double nodes = NodesOf(gpus, 1, per_node);
  const double card_bytes = 2 * bytes / per_node * (nodes - 1) / nodes;
  return inside + HopSeconds(device.dispatch, nodes - 1, card_bytes / 2) +
         HopSeconds(device.combine, nodes - 1, card_bytes / 2);
}

double RowBytes(const ModelShape& model) {
  return model.hidden * 2;
}

double WireBytes(const ModelShape& model, WireFormat wire) {
  constexpr double kScaleBytes = 4.0 / 128;
  return wire == WireFormat::kFp8 ? model.hidden * (1 + kScaleBytes) : RowBytes(model);
}

double PromptKeySeconds(const Setting& setting, int tensor_parallel) {
  const ModelShape& model = setting.model;
  const DeviceCosts& device = setting.attention;
  const double widths =
      model.IsLatent() ? kExpandedQueryWidth + kExpandedValueWidth : 2 * model.head_dim;
  // Keys are multiplied in bf16, whatever the format of the weights.
  const double operations = device.experts.operations_per_second *
                            device.hardware.bf16_operations_per_second /
                            device.hardware.OperationsPerSecond(model.DenseBytesPerWeight());
  return 2 * widths * model.heads / tensor_parallel / operations;
}

double AttentionSeconds(const Setting& setting, int tensor_parallel, const AttentionRows& rows) {
  const ModelShape& model = setting.model;
  const DeviceCosts& device = setting.attention;
  double seconds = rows.prompt * rows.prompt_keys * PromptKeySeconds(setting, tensor_parallel);
  if (model.IsLatent()) {
    // The cost form takes one batch for projections and keys: all rows, and the decode rows' keys
    // spread over them. Merging splits costs what the real context needs.
    LatentAttentionCost cost = LatentCostOf(device, model);
    seconds += cost.split_seconds * std::log2(1 + rows.context / 64);
    cost.split_seconds = 0;
    seconds += LatentAttentionSeconds(cost, model.heads / tensor_parallel, rows.all(),
                                      rows.context * rows.decode / std::max(rows.all(), 1e-9));
  } else {
    const GroupedShape shape = {model.heads / tensor_parallel,
                                std::max(model.kv_heads / tensor_parallel, 1.0), model.head_dim,
                                model.bytes_per_kv_value, 0};
    seconds += GroupedAttentionSeconds(device.grouped, shape, rows.decode, rows.context,
                                       KvCacheState::kCold) +
               DenseSeconds(device, model, model.AttentionWeights() / tensor_parallel, rows.all());
  }
  return seconds + AllReduceSeconds(device, tensor_parallel, rows.all() * RowBytes(model));
}

double SharedSeconds(const Setting& setting, int tensor_parallel, double rows) {
  const double weights = 3 * setting.model.hidden * setting.model.shared_intermediate;
  return weights == 0
             ? 0
             : DenseSeconds(setting.attention, setting.model, weights / tensor_parallel, rows);
}

double DenseFeedForwardSeconds(const Setting& setting, int tensor_parallel, double rows) {
  const double weights = 3 * setting.model.hidden * setting.model.dense_intermediate;
  return DenseSeconds(setting.attention, setting.model, weights / tensor_parallel, rows);
}

double OutputHeadSeconds(const Setting& setting, int tensor_parallel, double rows) {
  const ModelShape& model = setting.model;
  return DenseSeconds(setting.attention, model, model.vocab * model.hidden / tensor_parallel, rows);
}

double DenseStepSeconds(const Setting& setting, int tensor_parallel, const AttentionRows& rows) {
  const ModelShape& model = setting.model;
  double layer = 0;
  if (model.dense_layers > 0) {
    layer = AttentionSeconds(setting, tensor_parallel, rows) +
            DenseFeedForwardSeconds(setting, tensor_parallel, rows.all());
  }
  return model.dense_layers * layer + OutputHeadSeconds(setting, tensor_parallel, rows.decode);
}

double BusiestKeysFactor(const Setting& setting, int instances, double rows_of_one) {
  if (instances < 2 || rows_of_one <= 0) return 1;
  return 1 + setting.context_deviation * LargestOf(instances) / std::sqrt(rows_of_one);
}

double ExpertKernelSeconds(const Setting& setting, const Configuration& how, double slots,
                           double rows, double* activated_busiest) {
  const ModelShape& model = setting.model;
  const double activated =
      BusiestActivated(setting, how, ActivatedExperts(setting.activation, model, rows), slots);
  if (activated_busiest != nullptr) *activated_busiest = activated;
  const ExpertShape shape = {model.hidden, model.intermediate, model.bytes_per_weight,
                             how.tp_experts};
  return ExpertRoundSeconds(setting.experts.experts, shape, activated, slots,
                            rows * model.top_k / how.n);
}

double ExpertSeconds(const Setting& setting, const Configuration& how, double rows,
                     double* activated_busiest) {
  const ModelShape& model = setting.model;
  return ExpertKernelSeconds(setting, how, SlotsOf(setting, how), rows, activated_busiest) +
         AllReduceSeconds(setting.experts, how.tp_experts,
                          rows * model.top_k / how.n * RowBytes(model));
}

std::string NameOf(const Configuration& how) {
  const std::string pool = std::to_string(how.m) + "A" + std::to_string(how.n) + "E";
  return how.pools == 1 ? pool : std::to_string(how.pools) + " x " + pool;
}

std::vector<std::string> WhyNotServed(const Setting& setting, const Configuration& how) {
  std::vector<std::string> why;
  if (how.pools > kMostPools) {
    why.push_back("more than " + std::to_string(kMostPools) + " pools");
  }
  if (how.tp_attention > 1 || how.tp_experts > 1) why.emplace_back("several GPUs per instance");
  const bool is_on_cpus = setting.attention.hardware.is_cpu && setting.experts.hardware.is_cpu;
  if (how.gate == GateSide::kAttention && !is_on_cpus) {
    why.emplace_back("the gate on attention on GPUs");
  }
  if (how.mode != ExchangeMode::kDirect && setting.attention_per_node == 1 &&
      setting.experts_per_node == 1) {
    why.emplace_back("two phases with pods of one instance");
  }
  return why;
}

int NodesOf(int instances, int tensor_parallel, int per_node) {
  return (instances * tensor_parallel + per_node - 1) / per_node;
}

namespace {

// Of the exchange, as it counts them.
FullNodes NodesOfExchange(const Setting& setting, const Configuration& how) {
  const auto per_node = [](int said, const DeviceCosts& device, int tensor_parallel) {
    return said > 0 ? said : std::max(device.hardware.instances_per_node / tensor_parallel, 1);
  };
  return {how.m, how.n, per_node(setting.attention_per_node, setting.attention, how.tp_attention),
          per_node(setting.experts_per_node, setting.experts, how.tp_experts)};
}

// Experts that `instances` instances hold together. Replicas of an expert are on different ones.
double HeldBy(const Setting& setting, const Configuration& how, double instances) {
  const double slots = std::min<double>(SlotsOf(setting, how), setting.model.experts);
  const double replicas = slots * how.n / setting.model.experts;
  return setting.model.experts * NeededShare(how.n, instances, replicas);
}

FullRound RoundOfExchange(const Setting& setting, const Configuration& how, const FullNodes& nodes,
                          double rows) {
  const ModelShape& model = setting.model;
  FullRound round;
  round.rows = rows / how.m;
  round.row_bytes = WireBytes(model, how.wire);
  round.top_k = model.top_k;
  round.experts = model.experts;
  if (how.sum == SumRule::kFixedPoint) {
    round.sum_bytes = static_cast<double>(SumBytes(how.sum_bits, static_cast<int>(model.hidden)));
  }
  round.gate = how.gate;
  if (how.gate == GateSide::kExperts) return round;
  const auto needed = [&](int instances) {
    return NeededShare(model.experts, model.top_k, HeldBy(setting, how, instances));
  };
  round.needed_by_expert = needed(1);
  if (how.mode == ExchangeMode::kDirect) return round;
  round.needed_by_node = needed(std::min(nodes.experts_per_node, how.n));
  round.needed_by_last = needed(nodes.LastExperts());
  return round;
}

// Both modules in one node have no second network to gather for.
ExchangeMode ModeOf(const Configuration& how, bool is_inside) {
  return is_inside ? ExchangeMode::kDirect : how.mode;
}

// The network of one direction: the start, messages and bytes of the busiest instance. Every GPU of
// a tensor-parallel group has a network card and carries its share of each row.
double NetworkSeconds(const Configuration& how, const ExchangeCost& cost,
                      const BusiestCounts& counts) {
  return HopSeconds(
      cost, std::max(counts.attention_messages, counts.expert_messages),
      std::max(counts.attention_bytes / how.tp_attention, counts.expert_bytes / how.tp_experts));
}

// Bytes that pass between an end and its mates, over a node's links.
double HandSeconds(const ExchangeCost& cost, double bytes, int tensor_parallel) {
  return bytes > 0 ? cost.fixed_seconds + bytes / tensor_parallel / cost.inner_bytes_per_second : 0;
}

ExchangeTimes ComposeExchange(const Setting& setting, const Configuration& how,
                              const FullNodes& nodes, const BusiestCounts& out,
                              const BusiestCounts& back, bool is_inside) {
  const auto cost = [&](const ExchangeCost& of) { return is_inside ? InsideNode(of) : of; };
  const ExchangeCost dispatch = cost(setting.attention.dispatch);
  const ExchangeCost combine = cost(setting.experts.combine);
  ExchangeTimes times = {NetworkSeconds(how, dispatch, out), NetworkSeconds(how, combine, back)};
  times.out += HandSeconds(dispatch, out.attention_handed, how.tp_attention);
  if (out.expert_handed > 0) {
    const int gpus = std::min(nodes.experts_per_node, how.n) * how.tp_experts;
    times.out += CollectiveSeconds(setting.experts.all_gather, gpus, out.expert_handed);
  }
  times.back += HandSeconds(combine, back.expert_handed, how.tp_experts) +
                HandSeconds(combine, back.attention_handed, how.tp_attention);
  return times;
}

}  // namespace

ExchangeTimes TimesOfExchange(const Setting& setting, const Configuration& how, double rows) {
  const bool is_inside = IsInOneNode(setting, how);
  const ExchangeMode mode = ModeOf(how, is_inside);
  const FullNodes nodes = NodesOfExchange(setting, how);
  const FullRound round = RoundOfExchange(setting, how, nodes, rows);
  const BusiestEnds ends = BusiestEndsOf(mode, nodes);
  return ComposeExchange(setting, how, nodes, CountsOf(mode, nodes, ends, round, true),
                         CountsOf(mode, nodes, ends, round, false), is_inside);
}

ExchangeTimes LeastExchange(const Setting& setting, const Configuration& how, int fewest,
                            double rows) {
  const FullNodes nodes = NodesOfExchange(setting, how);
  const FullRound round = RoundOfExchange(setting, how, nodes, rows);
  const auto of = [&](bool is_inside) {
    const ExchangeMode mode = ModeOf(how, is_inside);
    const auto least = [&](bool is_out) {
      return LeastCountsOf(mode, nodes, fewest, round, rows, is_out);
    };
    return ComposeExchange(setting, how, nodes, least(true), least(false), is_inside);
  };
  const ExchangeTimes across = of(false);
  Configuration smallest = how;
  smallest.m = fewest;
  if (!IsInOneNode(setting, smallest)) return across;
  const ExchangeTimes inside = of(true);
  return {std::min(across.out, inside.out), std::min(across.back, inside.back)};
}

double SlotsOf(const Setting& setting, const Configuration& how) {
  const int slots = how.slots > 0 ? how.slots : SlotsPerInstance(setting, how);
  return std::max<double>(slots, std::ceil(static_cast<double>(setting.model.experts) / how.n));
}

int SlotsPerInstance(const Setting& setting, const Configuration& how) {
  const ModelShape& model = setting.model;
  const double room = setting.memory_share * setting.experts.hardware.memory_bytes * how.tp_experts;
  const double slots =
      (room / model.ExpertBytes() - setting.spare_slots) / std::max(model.layers, 1);
  return static_cast<int>(std::clamp(slots, 0.0, static_cast<double>(model.experts)));
}

double ActivatedExperts(const ActivationCurve& curve, const ModelShape& model, double rows) {
  const double experts = model.experts;
  if (rows <= 0) return 0;
  const double most = std::min(experts, rows * model.top_k);
  if (curve.points.empty()) {
    return std::min(most, experts * (1 - std::pow(1 - model.top_k / experts, rows)));
  }
  const auto above = std::ranges::find_if(
      curve.points, [&](const ActivationCurve::Point& p) { return p.rows >= rows; });
  if (above == curve.points.end()) return std::min(most, curve.points.back().activated);
  if (above == curve.points.begin()) {
    return std::min(most, above->activated * rows / above->rows);
  }
  const auto below = above - 1;
  const double share = std::log(rows / below->rows) / std::log(above->rows / below->rows);
  return std::min(most, below->activated + share * (above->activated - below->activated));
}

}  // namespace janus::controllers
