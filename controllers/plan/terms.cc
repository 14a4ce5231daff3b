#include "controllers/plan/terms.h"
#include "controllers/exchange/mode_times.h"

#include <algorithm>
#include <cmath>

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

bool IsServed(const Configuration& how) {
  return how.pools == 1 && how.tp_attention == 1 && how.tp_experts == 1 &&
         how.mode == ExchangeMode::kDirect && how.gate == GateSide::kExperts;
}

int NodesOf(int instances, int tensor_parallel, int per_node) {
  return (instances * tensor_parallel + per_node - 1) / per_node;
}

namespace {

struct Returning {
  double from_instances = 0;
  double from_nodes = 0;  // if nodes sum first; otherwise 0
};

// Contributions: every row comes back top_k times. FixedPoint: a row comes back once, with four
// bytes per value, from every instance that it needed, or from every node if nodes sum first.
Returning BytesBack(const Setting& setting, const Configuration& how, int expert_nodes,
                    double rows) {
  const ModelShape& model = setting.model;
  if (how.sum != SumRule::kFixedPoint) {
    const double bytes = rows * model.top_k * WireBytes(model, how.wire);
    return {bytes, bytes};
  }
  const auto summed = [&](int places) {
    return rows * InstancesNeeded(model, places) * 2 * RowBytes(model);
  };
  return {summed(how.n), summed(expert_nodes)};
}

// The part of an exchange that depends on the number of attention instances.
struct AttentionSide {
  int messages = 0;           // messages that each expert instance sends back
  int meeting_nodes = 0;      // nodes to which contributions come back
  double node_bytes = 0;      // bytes of rows that leave a node's GPUs
  double gather_seconds = 0;  // to gather these within the node
  bool is_inside = false;     // both modules are in one node
};

ExchangeTimes ComposeExchange(const Setting& setting, const Configuration& how, double rows,
                              const AttentionSide& side) {
  const ModelShape& model = setting.model;
  const int expert_nodes =
      NodesOf(how.n, how.tp_experts, setting.experts.hardware.instances_per_node);
  const double row = WireBytes(model, how.wire);
  // Every GPU of a tensor-parallel group has a network card and carries its share of each row.
  const double one = rows / how.m * row / how.tp_attention;  // leaves an attention GPU
  const double all = rows * row / how.tp_experts;            // enters an expert GPU
  const Returning returning = BytesBack(setting, how, expert_nodes, rows);
  // The busiest card: leaving n instances (or their nodes' cards), or entering m.
  const auto busiest_card = [&](double bytes) {
    return std::max(bytes / how.n / how.tp_experts, bytes / how.m / how.tp_attention);
  };
  const ExchangeCost dispatch =
      side.is_inside ? InsideNode(setting.attention.dispatch) : setting.attention.dispatch;
  const ExchangeCost combine =
      side.is_inside ? InsideNode(setting.experts.combine) : setting.experts.combine;
  const double inner = dispatch.inner_bytes_per_second;
  ExchangeTimes times;
  // Within one node there is no second network to gather for.
  switch (side.is_inside ? ExchangeMode::kDirect : how.mode) {
    case ExchangeMode::kDirect:
      if (how.gate == GateSide::kAttention) {
        const double needed = InstancesNeeded(model, how.n);
        times.out = dispatch.fixed_seconds + dispatch.network_seconds +  // the ids
                    HopSeconds(dispatch, how.n, std::max(one * needed, all * needed / how.n));
      } else {
        times.out = HopSeconds(dispatch, how.n, std::max(one * how.n, all));
      }
      times.back = HopSeconds(combine, side.messages, busiest_card(returning.from_instances));
      break;
    case ExchangeMode::kTwoPhaseSingle:
      // Gather in the node, then one transfer per expert node over one card, then multicast there.
      times.out = side.gather_seconds +
                  HopSeconds(dispatch, expert_nodes, side.node_bytes * expert_nodes) + all / inner;
      times.back = returning.from_instances / expert_nodes / inner +
                   HopSeconds(combine, side.meeting_nodes,
                              std::max(returning.from_nodes / expert_nodes,
                                       busiest_card(returning.from_nodes)));
      break;
    case ExchangeMode::kTwoPhaseParallel: {
      // One to one over every card (JANUS's case 2). Each attention GPU sends its rows to one GPU
      // of every expert node, or to several if the node has more GPUs than there are senders; the
      // node then gathers them. On the way back, an expert GPU sends to one GPU of every attention
      // node, which distributes them. Sums are made in the expert node before they leave it.
      const double expert_gpus = static_cast<double>(how.n) * how.tp_experts;
      const double of_node = expert_gpus / expert_nodes;
      const double senders = static_cast<double>(how.m) * how.tp_attention;
      times.out = HopSeconds(dispatch, expert_nodes * std::max(1.0, of_node / senders),
                             std::max(one * expert_nodes, rows * row / of_node));
      if (of_node > 1) {
        times.out +=
            CollectiveSeconds(setting.experts.all_gather, std::max(of_node, 2.0), rows * row);
      }
      times.back = HopSeconds(combine, side.meeting_nodes, busiest_card(returning.from_nodes)) +
                   combine.fixed_seconds + returning.from_nodes / senders / inner;
      if (how.sum == SumRule::kFixedPoint) {
        times.back += combine.fixed_seconds + returning.from_instances / expert_gpus / inner;
      }
      break;
    }
  }
  return times;
}

}  // namespace

ExchangeTimes TimesOfExchange(const Setting& setting, const Configuration& how, double rows) {
  const int nodes = NodesOf(how.m, how.tp_attention, setting.attention.hardware.instances_per_node);
  const double per_node = static_cast<double>(how.m) / nodes;
  const double bytes =
      rows / how.m * WireBytes(setting.model, how.wire) / how.tp_attention * per_node;
  AttentionSide side = {how.m, nodes};
  side.node_bytes = bytes;
  if (how.mode == ExchangeMode::kTwoPhaseSingle) {
    side.gather_seconds =
        CollectiveSeconds(setting.attention.all_gather, std::max(per_node, 2.0), bytes);
  }
  side.is_inside = IsInOneNode(setting, how);
  return ComposeExchange(setting, how, rows, side);
}

// Takes each term at its least: shares of bytes with the most instances, messages with the fewest,
// node sizes at their best.
ExchangeTimes LeastExchange(const Setting& setting, const Configuration& how, int fewest,
                            double rows) {
  const int per_node = setting.attention.hardware.instances_per_node;
  const int most_nodes = NodesOf(how.m, how.tp_attention, per_node);
  Configuration smallest = how;
  smallest.m = fewest;
  AttentionSide side = {fewest, NodesOf(fewest, how.tp_attention, per_node)};
  side.node_bytes = rows / most_nodes * WireBytes(setting.model, how.wire) / how.tp_attention;
  const ExchangeTimes across = ComposeExchange(setting, how, rows, side);
  side.is_inside = IsInOneNode(setting, smallest);
  if (!side.is_inside) return across;
  const ExchangeTimes inside = ComposeExchange(setting, how, rows, side);
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
