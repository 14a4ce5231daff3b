#include "operator/reconcile/capacity/service_plan.h"

#include <algorithm>
#include <array>

#include "common/exchange_size.h"
#include "common/model/device_memory.h"
#include "common/model/memory.h"
#include "common/page_tokens.h"
#include "common/row_format.h"
#include "controllers/placement.h"
#include "controllers/replicas/default_slots.h"
#include "controllers/timed/timed_model.h"
#include "operator/api/quantity.h"
#include "operator/reconcile/capacity/budget.h"

namespace janus::control {
namespace {

constexpr int kDefaultRowsPerRound = 512;
// A CPU core multiplies about this many rows with an expert's weights in the time it takes to read
// them (kernels_bench --only ffn, bf16). A wrong value costs time, never correctness.
constexpr int kCpuCrossoverRows = 8;
// The same for a GPU, from its bfloat16 rate and bandwidth: H100 295, H200 206.
constexpr int kGpuCrossoverRows = 256;
// A process with its stacks and gRPC's memory; about 10 MB were measured, without
// libraries, which processes share.
constexpr int64_t kProcessBytes = int64_t{16} << 20;
// The same with the CUDA context and driver memory: assumed, not measured.
constexpr int64_t kGpuProcessBytes = int64_t{512} << 20;
// An open stream of the gateway, without the data held for its client (docs/openai-api.md, Memory).
constexpr int64_t kStreamBytes = 9 << 10;
// Share of the sequence memory for preempted sequences. On a CPU both use the same memory, and a
// small part suffices to lose no work when a batch outgrows its pages.
constexpr int kSwapShare = 8;

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

DType ComputeType(Dtype asked, DType checkpoint) {
  switch (asked) {
    case Dtype::kAuto:
      return checkpoint;
    case Dtype::kBFloat16:
      return DType::kBFloat16;
    case Dtype::kFloat16:
      return DType::kFloat16;
    case Dtype::kFloat32:
      return DType::kFloat32;
  }
  return checkpoint;
}

int HeldCount(const RoleSpec& role, int64_t fewest) {
  const int64_t least = role.scaling ? role.scaling->min_replicas.value_or(1) : 1;
  return static_cast<int>(std::max(least, fewest));
}

using controllers::TimedModel;

// Nothing: the workers are no timed devices.
Result<std::optional<TimedModel>> TimedModelOf(const MoEServiceSpec& spec,
                                               const ModelDescription& model) {
  if (!spec.timed) return std::optional<TimedModel>();
  Result<TimedModel> timed = TimedModel::Make(
      spec.timed->device(), {model.moe_layers(), model.moe.experts, model.moe.top_k});
  if (!timed.ok()) return InvalidArgument("spec.timed: " + timed.status().message());
  return std::optional<TimedModel>(*std::move(timed));
}

// Expert instances that must hold the model together: without the largest pod, if the placement is
// to be survivable.
int HoldersOf(const MoEServiceSpec& spec, int instances) {
  const ExpertsSpec& experts = spec.roles.experts;
  const int largest_pod = std::min(experts.instances_per_pod, instances);
  return experts.placement.survivable ? instances - largest_pod : instances;
}

// Pods of several instances are nodes of the exchange.
std::optional<NodeSizes> NodesOfPods(const MoEServiceSpec& spec) {
  const NodeSizes out{spec.roles.attention.instances_per_pod, spec.roles.experts.instances_per_pod};
  if (out.attention == 1 && out.experts == 1) return std::nullopt;
  return out;
}

// Counts, and the fewest slots that hold the model.
Status SetCounts(const MoEServiceSpec& spec, const ModelDescription& model,
                 const std::optional<TimedModel>& timed, ServicePlan& plan) {
  const ExpertsSpec& experts = spec.roles.experts;
  const int most_slots = timed ? timed->slots() : model.moe.experts;
  if (timed && experts.slots_per_instance > most_slots) {
    return InvalidArgument("spec.roles.experts.slotsPerInstance: is " +
                           std::to_string(*experts.slots_per_instance) + "; a timed device, " +
                           ToString(timed->device()) + ", has room for " +
                           std::to_string(most_slots) + "; lower it, or leave it out");
  }
  const int64_t per_instance = experts.slots_per_instance.value_or(most_slots);
  const bool is_survivable = experts.placement.survivable;
  const int64_t fewest =
      CeilDiv(model.moe.experts, per_instance) + (is_survivable ? experts.instances_per_pod : 0);
  plan.m = spec.roles.attention.replicas.value_or(HeldCount(spec.roles.attention, 1));
  plan.n = experts.replicas.value_or(HeldCount(experts, fewest));
  const std::optional<int32_t> most =
      experts.scaling ? experts.scaling->max_replicas : std::nullopt;
  if (!experts.replicas && most && fewest > *most) {
    return InvalidArgument("spec.roles.experts.scaling.maxReplicas: is " + std::to_string(*most) +
                           "; the model's " + std::to_string(model.moe.experts) + " experts need " +
                           std::to_string(fewest) + " instances of " +
                           std::to_string(per_instance) + " slots" +
                           (is_survivable ? ", since the placement is survivable" : "") +
                           "; raise it, or spec.roles.experts.slotsPerInstance");
  }
  const int holders = HoldersOf(spec, plan.n);
  if (holders < 1) {
    return InvalidArgument(
        "spec.roles.experts.placement.survivable: wants a slot for every expert without the "
        "largest pod, and there is one expert pod; raise spec.roles.experts.replicas to " +
        std::to_string(experts.instances_per_pod + 1) + ", or set survivable to false");
  }
  const int fewest_slots =
      std::min(controllers::FewestSlots(model.moe.experts, holders), most_slots);
  plan.slots_per_instance = experts.slots_per_instance.value_or(fewest_slots);
  plan.most_slots = plan.slots_per_instance;
  plan.spare_slots = experts.spare_slots;
  const int64_t slots = int64_t{plan.slots_per_instance} * holders;
  if (slots < model.moe.experts) {
    return InvalidArgument(
        "spec.roles.experts.slotsPerInstance: is " + std::to_string(plan.slots_per_instance) +
        "; " + std::to_string(holders) + " expert instances" +
        (is_survivable ? ", all but the largest pod's," : "") + " then have " +
        std::to_string(slots) + " slots for the model's " + std::to_string(model.moe.experts) +
        " experts; want at least " +
        (timed ? ""
               : std::to_string(CeilDiv(model.moe.experts, holders)) + " slots, or at least ") +
        std::to_string(fewest) + " replicas" +
        (timed ? ", as a timed device stands for " + ToString(timed->device()) : ""));
  }
  return OkStatus();
}

// A hidden state on the wire, by default without compression.
int64_t RowBytes(const ModelDescription& model, Compression compression = Compression::kNone) {
  return static_cast<int64_t>(RowFormat{model.hidden, WireType(model), compression}.bytes());
}

Status SetLength(const MoEServiceSpec& spec, const ModelDescription& model, ServicePlan& plan) {
  plan.max_model_len = spec.model.max_model_len.value_or(static_cast<int32_t>(model.max_positions));
  if (plan.max_model_len > model.max_positions) {
    return InvalidArgument("spec.model.maxModelLen: is " + std::to_string(plan.max_model_len) +
                           "; the model's max_position_embeddings is " +
                           std::to_string(model.max_positions));
  }
  plan.max_batch_size = spec.roles.attention.max_batch_size;
  plan.max_rows_per_round = std::max(kDefaultRowsPerRound, plan.max_batch_size);
  return OkStatus();
}

// Whether a node may have several instances.
bool HasMates(const ServicePlan& plan) {
  return plan.shares_hosts ||
         (plan.nodes && (plan.nodes->attention > 1 || plan.nodes->experts > 1));
}

// The mode until links are measured (exchange/choose_mode.h). A node of several instances sends
// each row once to another node, not once to each instance there. Instances that share memory read
// rows in place. On GPUs the two-phase modes pay if rows stay in the GPUs' memory, which members
// find out in mode Direct.
void ChooseExchangeMode(const MoEServiceSpec& spec, ServicePlan& plan) {
  if (spec.exchange.mode == ExchangeMode::kAuto && HasMates(plan) &&
      plan.effective.device != Device::kCuda) {
    plan.effective.mode = janus::ExchangeMode::kTwoPhaseParallel;
  }
}

// Another mode or side of the gate than the planned one may need so many times the memory, or this
// much.
constexpr int64_t kMostForWay = 2;
constexpr int64_t kLittleForWay = int64_t{64} << 20;

// Memory of the transports (common/exchange_size.h). An instance in a separate pod reaches all
// others over a network.
class ExchangeMemory {
 public:
  ExchangeMemory(const ModelDescription& model, const ServicePlan& plan) {
    const NodeSizes nodes = plan.nodes.value_or(NodeSizes());
    const auto row = static_cast<size_t>(RowBytes(model, plan.effective.compression));
    apart_ = {plan.m,
              plan.n,
              plan.effective.micro_batches,
              plan.max_rows_per_round,
              model.moe.top_k,
              row,
              plan.effective.mode,
              nodes.attention,
              nodes.experts,
              SumBytes(plan.effective.sums.bits, model.hidden)};
    together_ = apart_;
    if (!plan.shares_hosts) return;
    // Where the scheduler puts the pods is not known: all in one machine, or each in its own.
    together_.attention_per_node = plan.m;
    together_.experts_per_node = plan.n;
  }

  int64_t Segment(Role role, janus::ExchangeMode mode, janus::GateSide gate) const {
    return Most(SegmentBytes, role, mode, gate);
  }
  int64_t Network(Role role, janus::ExchangeMode mode, janus::GateSide gate) const {
    return Most(NetworkBytes, role, mode, gate);
  }
  // Whether both roles need not much more than with the planned mode and side of the gate.
  bool IsNear(const Effective& planned, janus::ExchangeMode mode, janus::GateSide gate) const {
    return std::ranges::all_of(std::array{Role::kAttention, Role::kExperts}, [&](Role role) {
      const int64_t of_planned = Both(role, planned.mode, planned.gate);
      return Both(role, mode, gate) <= std::max(kMostForWay * of_planned, kLittleForWay);
    });
  }

 private:
  template <class Bytes>
  int64_t Most(Bytes bytes, Role role, janus::ExchangeMode mode, janus::GateSide gate) const {
    size_t out = 0;
    for (ExchangeSize size : {apart_, together_}) {
      size.mode = mode;
      size.gate = gate;
      out = std::max(out, bytes(size, role));
    }
    return static_cast<int64_t>(out);
  }
  int64_t Both(Role role, janus::ExchangeMode mode, janus::GateSide gate) const {
    return Segment(role, mode, gate) + Network(role, mode, gate);
  }

  ExchangeSize apart_;
  ExchangeSize together_;
};

// Whether Auto may put the gate on attention. It saves rows on their way to several expert nodes.
// GPUs compute the gate only with the experts, and timed devices do as the GPUs that they play.
bool MayMoveGate(const MoEServiceSpec& spec, const ServicePlan& plan, bool in_pods) {
  const bool is_apart = plan.nodes || plan.shares_hosts || in_pods;
  const int each = plan.nodes.value_or(NodeSizes()).experts;
  return spec.exchange.gate == GateSide::kAuto && plan.effective.device == Device::kCpu &&
         is_apart && plan.n > each;
}

// With Auto the memory is enough for every mode, and for the gate on attention, if that needs not
// much more than what is planned.
void SetExchange(const MoEServiceSpec& spec, const ModelDescription& model, bool in_pods,
                 ServicePlan& plan) {
  const ExchangeMemory memory(model, plan);
  const Effective& planned = plan.effective;
  plan.chooses_mode = spec.exchange.mode == ExchangeMode::kAuto;
  const bool is_any_mode = plan.chooses_mode && HasMates(plan);
  const bool moves_gate = MayMoveGate(spec, plan, in_pods);
  for (size_t i = 0; i < plan.mode_fits.size(); ++i) {
    const auto mode = static_cast<janus::ExchangeMode>(i);
    const bool is_allowed = is_any_mode || mode == planned.mode;
    plan.mode_fits[i] = is_allowed && memory.IsNear(planned, mode, planned.gate);
    plan.gate_fits[i] =
        is_allowed && moves_gate && memory.IsNear(planned, mode, janus::GateSide::kAttention);
  }
  const auto largest = [&](auto bytes) {
    int64_t out = 0;
    for (size_t i = 0; i < plan.mode_fits.size(); ++i) {
      const auto mode = static_cast<janus::ExchangeMode>(i);
      if (plan.mode_fits[i]) out = std::max(out, bytes(mode, planned.gate));
      if (plan.gate_fits[i]) out = std::max(out, bytes(mode, janus::GateSide::kAttention));
    }
    return out;
  };
  const auto segment = [&](Role role) {
    return largest([&](auto mode, auto gate) { return memory.Segment(role, mode, gate); });
  };
  const auto network = [&](Role role) {
    return largest([&](auto mode, auto gate) { return memory.Network(role, mode, gate); });
  };
  const auto all = [&](const auto& of) {
    return plan.m * of(Role::kAttention) + plan.n * of(Role::kExperts);
  };
  MemoryNeed& need = plan.need;
  need.exchange = all(segment);
  if (ForcesNetwork(plan.effective.transport) || plan.nodes || plan.shares_hosts) {
    need.exchange += all(network);
  }
  need.attention_exchange = segment(Role::kAttention) + network(Role::kAttention);
  need.expert_exchange = segment(Role::kExperts) + network(Role::kExperts);
}

// An instance that computes in the checkpoint's type uses the mapped weights. All instances
// together hold every expert, however they are divided.
void SetWeights(const ModelDescription& model, bool in_place, ServicePlan& plan) {
  MemoryNeed& need = plan.need;
  const int64_t filled = std::min(plan.slots_per_instance, model.moe.experts);
  // Weights other than experts are converted from fp8 for any compute type.
  const bool attention_in_place = in_place && !model.has_fp8_weights;
  // On CPUs both roles have the gates, since each epoch says which of them computes them.
  if (!attention_in_place) {
    need.attention_weights = AttentionWeightBytes(model) + GateWeightBytes(model);
  }
  if (in_place) {
    need.mapped_weights =
        GateWeightBytes(model) + ExpertWeightBytes(model) * model.moe.experts * model.moe_layers();
    if (attention_in_place) {
      need.mapped_weights += AttentionWeightBytes(model);
      need.attention_mapped = AttentionWeightBytes(model) + GateWeightBytes(model);
    }
    need.expert_mapped =
        GateWeightBytes(model) + ExpertWeightBytes(model) * filled * model.moe_layers();
    return;
  }
  need.expert_weights = GateWeightBytes(model) +
                        ExpertWeightBytes(model) * (filled * model.moe_layers() + plan.spare_slots);
}

// On a GPU: the running and the prepared epoch.
constexpr int kEpochs = 2;

RoundRoom RoomOfRounds(const ServicePlan& plan) {
  return {plan.max_rows_per_round, plan.max_batch_size, plan.effective.micro_batches,
          plan.effective.compression, plan.effective.sums.bits};
}

// What one epoch takes on the GPU of an attention instance, without keys, by the planned number of
// micro-batches or a smaller one, whichever takes most. With fewer of them each is larger, and
// packed rows and sums have no slots for each that fewer would save.
PodNeed AttentionEpochOnGpu(const ModelDescription& model, const ServicePlan& plan) {
  PodNeed most;
  for (RoundRoom room = RoomOfRounds(plan); room.micro_batches > 0; --room.micro_batches) {
    PodNeed one;
    one.workspace = AttentionDeviceBytes(model, room, 0) + AttentionGraphBytes(model, room);
    one.exchange = AttentionDeviceSlotBytes(model, room);
    if (one.total() > most.total()) most = one;
  }
  return most;
}

// For workers on GPUs, without keys and values. Weights pass through host memory. If they are
// converted there, expert instances keep all of theirs in host memory; attention instances convert
// one tensor at a time.
void SetGpus(const ModelDescription& model, ServicePlan& plan) {
  const RoundRoom room = RoomOfRounds(plan);
  const int64_t taken = int64_t{plan.max_rows_per_round} * model.moe.top_k;
  const int64_t row = RowBytes(model);
  const int64_t filled = std::min(plan.slots_per_instance, model.moe.experts);
  MemoryNeed& need = plan.need;
  GpuPodNeed& attention = need.attention_on_gpu;
  attention.device.weights = AttentionWeightBytes(model);
  const PodNeed epoch = AttentionEpochOnGpu(model, plan);
  attention.device.workspace = kEpochs * epoch.workspace;
  // Rows that a peer cannot read directly go to the host from a buffer beside the slots.
  attention.device.exchange = kEpochs * (epoch.exchange + int64_t{plan.max_rows_per_round} * row);
  if (need.attention_weights > 0) attention.host.weights = LargestAttentionTensorBytes(model);
  const int64_t sums = int64_t{plan.max_rows_per_round} *
                       static_cast<int64_t>(SumBytes(plan.effective.sums.bits, model.hidden));
  attention.host.workspace = kEpochs * (taken * 8 + std::max(taken * row, sums));
  attention.host.exchange = kEpochs * need.attention_exchange;
  attention.host.process = kGpuProcessBytes;
  GpuPodNeed& experts = need.experts_on_gpu;
  experts.device.weights =
      GateWeightBytes(model) +
      ExpertWeightBytes(model) * (filled * model.moe_layers() + plan.spare_slots);
  experts.device.workspace =
      kEpochs * (ExpertDeviceBytes(model, room, plan.m, plan.n, static_cast<int>(filled)) +
                 ExpertGraphBytes(model, room, plan.m));
  experts.device.exchange =
      kEpochs * (ExpertDeviceSlotBytes(model, room, plan.m) + int64_t{plan.m} * taken * row);
  experts.host.weights = need.expert_weights;
  experts.host.workspace = kEpochs * int64_t{plan.m} * (taken * 40 + plan.max_rows_per_round * row);
  experts.host.exchange = kEpochs * need.expert_exchange;
  experts.host.process = kGpuProcessBytes;
}

// GPU memory for `keys` cached positions besides the positions themselves, by the planned number of
// micro-batches or a smaller one.
int64_t KeysDeviceBytes(const ModelDescription& model, const ServicePlan& plan, int64_t keys) {
  int64_t most = 0;
  for (RoundRoom room = RoomOfRounds(plan); room.micro_batches > 0; --room.micro_batches) {
    most = std::max(most,
                    AttentionDeviceBytes(model, room, keys) - AttentionDeviceBytes(model, room, 0));
  }
  return kEpochs * most;
}

// On one machine the gateway shares memory with weights and KV cache, so it gets a share, less than
// on a separate machine.
Status SetGateway(const GatewayLimits& limits, int64_t machine_bytes, std::optional<int64_t> asked,
                  ServicePlan& plan) {
  constexpr int64_t kLeast = int64_t{32} << 20, kMost = int64_t{256} << 20;
  const int64_t share = std::clamp(machine_bytes / 16, kLeast, kMost);
  plan.gateway_memory_bytes = asked.value_or(std::max(share, 4 * limits.request_size.value));
  plan.need.gateway = plan.gateway_memory_bytes + kStreamBytes * limits.open_streams;
  // The gateway's own check, with the field's name.
  if (limits.request_size.value <= plan.gateway_memory_bytes / 4 * 3) return OkStatus();
  return InvalidArgument("--memory-bytes: is " + std::to_string(plan.gateway_memory_bytes) +
                         "; requests may take three quarters of it, and one of "
                         "spec.gateway.limits.requestSize (" +
                         limits.request_size.text + ") would never fit; want at least " +
                         std::to_string(4 * limits.request_size.value));
}

// As many whole pages of `page` bytes as fit.
int64_t PageRoom(const ModelDescription& model, const ServicePlan& plan, int64_t page,
                 const KvRoom& room) {
  if (room.is_one) return room.pages / (kSwapShare + 1) * kSwapShare / page * page;
  constexpr int64_t kMany = 1 << 20;  // a page's extra memory is computed for many pages
  const int64_t beside = KeysDeviceBytes(model, plan, kMany * kPageTokens) / kMany + 1;
  return std::max<int64_t>(room.pages / (page + beside) - 1, 0) * page;
}

// Keys and values that a timed device holds: those of the named device, in whole pages, or as many
// as the spec says. Memory is taken as pages are first written, so a plan counts no more than a
// full batch of the longest sequences writes.
Status SetTimedKv(const MoEServiceSpec& spec, const TimedModel& timed, int64_t page,
                  ServicePlan& plan) {
  const int64_t pages_per_sequence = CeilDiv(plan.max_model_len, kPageTokens);
  const int64_t most = timed.kv_tokens() / kPageTokens * page;
  const int64_t least = pages_per_sequence * page;
  const std::string room = "a timed device, " + ToString(timed.device()) + ", has room for " +
                           std::to_string(timed.kv_tokens()) + " tokens of each attention instance";
  if (most < least) {
    return InvalidArgument("spec.timed.scale: " + room + ", and one sequence may have " +
                           std::to_string(plan.max_model_len) +
                           "; lower it, or spec.model.maxModelLen");
  }
  const std::optional<Quantity>& size = spec.roles.attention.kv_cache.size;
  if (size && (size->value > most || size->value < least)) {
    return InvalidArgument("spec.roles.attention.kvCache.size: is " + size->text + "; " + room +
                           ", which are " + FormatBytes(most) + " of the served model, and one " +
                           "sequence takes " + FormatBytes(least) + "; leave it out");
  }
  plan.kv_bytes = size ? size->value : most;
  const int64_t written = std::min(plan.kv_bytes, least * plan.max_batch_size);
  plan.swap_bytes = std::max(page, written / kSwapShare / page * page);
  plan.need.kv = written + plan.swap_bytes;
  return OkStatus();
}

Status SetKv(const MoEServiceSpec& spec, const ModelDescription& model,
             const std::optional<TimedModel>& timed, const Budget& budget, ServicePlan& plan) {
  const KvCacheSpec& cache = spec.roles.attention.kv_cache;
  const int64_t page =
      (plan.effective.fp8_kv_cache ? Fp8KvBytesPerToken(model) : KvBytesPerToken(model)) *
      kPageTokens;
  if (timed) return SetTimedKv(spec, *timed, page, plan);
  GpuPodNeed& on_gpu = plan.need.attention_on_gpu;
  if (cache.prefix_host_memory) {
    const Quantity& asked = *cache.prefix_host_memory;
    if (asked.value > 0 && plan.effective.prefix_cache == PrefixCache::kDisabled) {
      return InvalidArgument("spec.roles.attention.kvCache.prefixHostMemory: is " + asked.text +
                             ", and prefixCache is Disabled; leave one of them out");
    }
    plan.prefix_host_bytes = asked.value / page * page;
  }
  on_gpu.host.kv = plan.prefix_host_bytes;  // preempted sequences get a share of the rest
  const int64_t pages_per_sequence = CeilDiv(plan.max_model_len, kPageTokens);
  // One sequence of full length must fit; otherwise a request within the limits could never run.
  const int64_t least = pages_per_sequence * page;
  const KvRoom room = budget.RoomForKv(plan);
  if (cache.size) {
    plan.kv_bytes = cache.size->value;
    if (plan.kv_bytes < least) {
      return InvalidArgument("spec.roles.attention.kvCache.size: is " + cache.size->text +
                             "; one sequence of " + std::to_string(plan.max_model_len) +
                             " tokens takes " + FormatBytes(least) +
                             "; raise it, or lower spec.model.maxModelLen");
    }
  } else {
    const int64_t useful = pages_per_sequence * plan.max_batch_size * page;
    plan.kv_bytes = std::max(least, std::min(useful, PageRoom(model, plan, page, room)));
  }
  // Preempted sequences that do not fit in host memory are recomputed later.
  const int64_t swap = plan.kv_bytes / kSwapShare;
  plan.swap_bytes = std::max(page, (room.is_one ? swap : std::min(swap, room.swap)) / page * page);
  plan.need.kv = plan.kv_bytes + plan.swap_bytes;
  // One extra page that no sequence owns.
  on_gpu.device.kv = plan.kv_bytes + page;
  on_gpu.device.workspace += KeysDeviceBytes(model, plan, plan.kv_bytes / page * kPageTokens);
  on_gpu.host.kv += plan.swap_bytes;
  return OkStatus();
}

// What a plan is made from.
struct Planning {
  const MoEService& service;
  const ModelDescription& checkpoint;
  const Budget& budget;
  std::optional<int64_t> gateway_memory_bytes;
  std::optional<TimedModel> timed = std::nullopt;  // what every worker stands for

  const MoEServiceSpec& spec() const { return service.spec; }
};

// The rest of a plan that has counts and slots.
Result<ServicePlan> Complete(const Planning& from, ServicePlan plan) {
  const MoEServiceSpec& spec = from.spec();
  ModelDescription model = from.checkpoint;
  model.dtype = plan.dtype;
  JANUS_RETURN_IF_ERROR(SetLength(spec, model, plan));
  const janus::Status sums = Validate(plan.effective.sums, model.moe_layers(), model.moe.top_k);
  if (!sums.ok()) return InvalidArgument("spec.exchange.sum: FixedPoint: " + sums.message());
  plan.queued_requests = spec.gateway.limits.queued_requests;
  if (spec.slo.tpot) plan.tpot_target_milliseconds = spec.slo.tpot->target_milliseconds;
  plan.compute_threads = from.budget.ComputeThreads(plan.m, plan.n);
  plan.crossover_rows =
      plan.effective.device == Device::kCuda ? kGpuCrossoverRows : kCpuCrossoverRows;

  MemoryNeed& need = plan.need;
  need.m = plan.m;
  need.n = plan.n;
  SetWeights(model, plan.dtype == from.checkpoint.dtype, plan);
  need.attention_workspace = AttentionWorkspaceBytes(
      model, plan.max_rows_per_round, plan.max_batch_size, plan.compute_threads,
      plan.effective.compression, plan.effective.sums.on());
  need.expert_workspace = ExpertWorkspaceBytes(
      model, plan.m, plan.max_rows_per_round, plan.effective.compression, plan.effective.sums.on());
  SetExchange(spec, model, from.budget.HasPods(), plan);
  SetGpus(model, plan);
  need.process = kProcessBytes;
  need.processes = kProcessBytes * (plan.m + plan.n + 1);
  if (const std::optional<int64_t> machine_bytes = from.budget.GatewayRoom()) {
    JANUS_RETURN_IF_ERROR(
        SetGateway(spec.gateway.limits, *machine_bytes, from.gateway_memory_bytes, plan));
  }
  JANUS_RETURN_IF_ERROR(SetKv(spec, model, from.timed, from.budget, plan));
  JANUS_RETURN_IF_ERROR(from.budget.Check(from.service.metadata.name, plan));
  return plan;
}

// With more instances each has fewer experts: as many are planned as it takes to hold the model,
// where the spec leaves the number open. `counted` has counts and slots.
Result<ServicePlan> WithInstancesThatHold(const Planning& from, ServicePlan counted) {
  Result<ServicePlan> out = Complete(from, counted);
  const ExpertsSpec& experts = from.spec().roles.experts;
  if (experts.replicas || experts.slots_per_instance || !from.budget.GrowsWithInstances()) {
    return out;
  }
  int most = std::min(from.checkpoint.moe.experts, kMostExpertInstances);
  if (experts.scaling) most = std::min(most, experts.scaling->max_replicas.value_or(most));
  while (out.status().code() == StatusCode::kResourceExhausted && counted.n < most) {
    ++counted.n;
    counted.slots_per_instance =
        controllers::FewestSlots(from.checkpoint.moe.experts, HoldersOf(from.spec(), counted.n));
    Result<ServicePlan> more = Complete(from, counted);
    if (more.ok()) return more;
  }
  return out;
}

// Replicas, where the spec does not say how many slots there are. They take only memory that keys
// and values leave.
Result<ServicePlan> WithReplicas(const Planning& from, const ServicePlan& fewest) {
  const int experts = from.checkpoint.moe.experts;
  const auto with_slots = [&](int slots) {
    ServicePlan plan = fewest;
    plan.slots_per_instance = slots;
    plan.need = {};
    return Complete(from, std::move(plan));
  };
  const auto fits = [&](int slots) {
    const int64_t entries =
        int64_t{from.checkpoint.moe_layers()} * fewest.n * (slots + fewest.spare_slots);
    if (entries > controllers::kMaxPlacementEntries) return false;
    const Result<ServicePlan> plan = with_slots(slots);
    return plan.ok() && plan->kv_bytes == fewest.kv_bytes;
  };
  const int most = from.timed ? std::min(from.timed->slots(), experts) : experts;
  int held = fewest.slots_per_instance, above = most + 1;
  while (above - held > 1) {
    const int slots = held + (above - held) / 2;
    (fits(slots) ? held : above) = slots;
  }
  const int slots = controllers::SlotsByDefault(experts, fewest.n, held);
  JANUS_ASSIGN_OR_RETURN(ServicePlan out, with_slots(std::max(slots, fewest.slots_per_instance)));
  out.most_slots = held;
  return out;
}

Result<ServicePlan> PlanWithin(Planning from) {
  const MoEServiceSpec& spec = from.spec();
  ServicePlan counted;
  counted.effective = ResolveDefaults(from.service);
  counted.nodes = from.budget.Nodes();
  counted.plays_nodes = counted.nodes.has_value();
  if (!counted.nodes) counted.nodes = NodesOfPods(spec);
  counted.shares_hosts = spec.exchange.host_shared;
  ChooseExchangeMode(spec, counted);
  counted.dtype = ComputeType(spec.model.dtype, from.checkpoint.dtype);
  JANUS_ASSIGN_OR_RETURN(from.timed, TimedModelOf(spec, from.checkpoint));
  if (from.timed) counted.timed = from.timed->device();
  JANUS_RETURN_IF_ERROR(SetCounts(spec, from.checkpoint, from.timed, counted));
  JANUS_ASSIGN_OR_RETURN(const ServicePlan fewest, WithInstancesThatHold(from, std::move(counted)));
  if (spec.roles.experts.slots_per_instance) return fewest;
  return WithReplicas(from, fewest);
}

// A service is not refused for memory that only another side of the gate would need.
Result<ServicePlan> PlanWithAGate(const Planning& from) {
  Result<ServicePlan> out = PlanWithin(from);
  const bool is_auto = from.spec().exchange.gate == GateSide::kAuto;
  if (!is_auto || out.status().code() != StatusCode::kResourceExhausted) return out;
  MoEService stays = from.service;
  stays.spec.exchange.gate = GateSide::kExperts;
  Result<ServicePlan> without =
      PlanWithin({stays, from.checkpoint, from.budget, from.gateway_memory_bytes});
  return without.ok() ? std::move(without) : std::move(out);
}

}  // namespace

Result<ServicePlan> PlanService(const MoEService& service, const ModelDescription& model,
                                const MachineRoom& room,
                                std::optional<int64_t> gateway_memory_bytes) {
  return PlanWithAGate(
      {service, model, MachineBudget(room, MostPools(service.spec)), gateway_memory_bytes});
}

Result<ServicePlan> PlanServiceInPods(const MoEService& service, const ModelDescription& model,
                                      const PodRooms& rooms) {
  return PlanWithAGate({service, model, PodBudget(rooms, MostPools(service.spec)), std::nullopt});
}

}  // namespace janus::control
