#include "operator/scaling/setting_of.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "common/model/memory.h"
#include "controllers/plan/shape_of.h"
#include "operator/api/device.h"
#include "operator/scaling/hardware_of.h"

namespace janus::control {
namespace {

// Of expert instances a table has as many as there are experts: more of them read no fewer weights.
// Of small models it has some more, since a table of so few costs nothing.
constexpr int kFewestInTable = 16;

// As its instances compute it.
ModelDescription Served(const PlannedService& planned) {
  ModelDescription model = planned.model;
  model.dtype = planned.plan.dtype;
  return model;
}

controllers::ModelShape ShapeOfService(const PlannedService& planned) {
  controllers::ModelShape shape = controllers::ShapeOf(Served(planned));
  if (planned.plan.effective.fp8_kv_cache) shape.bytes_per_kv_value = shape.Fp8BytesPerKvValue();
  return shape;
}

// What a profile is of.
enum class Extent {
  kInstance,  // the share of one instance
  kSource,    // as PredictionBasis has it
};

Result<HardwareProfile> HardwareOfRole(const RunningService& service, Role role, Extent extent) {
  const bool is_attention = role == Role::kAttention;
  const RoleDevices& devices = service.planned.devices;
  const ServicePlan& plan = service.planned.plan;
  RoleDevice device;
  device.role = role;
  device.profile = is_attention ? service.spec.roles.attention.hardware_profile
                                : service.spec.roles.experts.hardware_profile;
  device.report = is_attention ? devices.attention : devices.experts;
  if (extent == Extent::kSource) return HardwareOf(device, service.profiles);
  device.threads = plan.compute_threads;
  const PodNeed need = is_attention ? plan.need.attention_pod() : plan.need.expert_pod();
  device.memory_bytes = static_cast<double>(std::max<int64_t>(need.total(), 1));
  return HardwareOf(device, service.profiles);
}

controllers::InstanceRoom RoomOf(const RunningService& service, double experts_for_one) {
  const PlannedService& planned = service.planned;
  const ServicePlan& plan = planned.plan;
  const ModelDescription model = Served(planned);
  const int64_t of_one =
      plan.effective.fp8_kv_cache ? Fp8KvBytesPerToken(model) : KvBytesPerToken(model);
  const auto named = [&](int slots) {
    return static_cast<int>(std::ceil(slots * experts_for_one));
  };
  controllers::InstanceRoom room;
  const int64_t kv_tokens = plan.kv_bytes / std::max<int64_t>(of_one, 1);  // whole ones
  room.kv_tokens = static_cast<double>(kv_tokens);
  if (const auto slots = service.spec.roles.experts.slots_per_instance) room.slots = named(*slots);
  room.most_slots = named(plan.most_slots);
  const int holds = service.spec.roles.experts.slots_per_instance.value_or(plan.most_slots);
  room.fewest_experts = (model.moe.experts + holds - 1) / std::max(holds, 1);
  return room;
}

// Instances of a role in a pool that a predictor knows. Each of them takes time to build it.
int TableSize(const controllers::ScalingPolicy& policy, const controllers::RolePolicy& role,
              int most, int serving) {
  if (policy.max_gpus > 0) most = std::min(most, policy.max_gpus - 1);
  const int least = (role.min + policy.min_pools - 1) / policy.min_pools;  // of each pool
  return std::max({std::min(role.max, std::max(most, least)), serving, 1});
}

// Numerics are the user's. Mode and side of the gate are those that an epoch may take. Each
// exchange makes a decision slower, so the gate on attention is left out where some mode has no
// room for it.
void SetExchange(const ServicePlan& plan, Ground ground, PredictorInputs& out) {
  controllers::PredictorOptions& options = out.options;
  options.modes.clear();
  for (size_t mode = 0; mode < plan.mode_fits.size(); ++mode) {
    if (plan.mode_fits[mode]) options.modes.push_back(static_cast<janus::ExchangeMode>(mode));
  }
  options.gates = {plan.effective.gate};
  if (plan.moves_gate()) {
    options.gates = {janus::GateSide::kExperts};
    const bool are_cpus = out.attention.is_cpu && out.experts.is_cpu;
    if (are_cpus && plan.gate_fits == plan.mode_fits) {
      options.gates.push_back(janus::GateSide::kAttention);
    }
  }
  options.sums = {plan.effective.sum};
  if (plan.effective.sums.on()) options.sum_bits = plan.effective.sums.bits;
  if (plan.effective.compression == Compression::kFp8) {
    options.wires = {controllers::WireFormat::kFp8};
  }
  // A machine without played nodes is one node, as are the pods of a machine with hostShared.
  if (plan.shares_hosts || (ground == Ground::kMachine && !plan.nodes)) return;
  const NodeSizes nodes = plan.nodes.value_or(NodeSizes());
  out.attention_per_node = nodes.attention;
  out.experts_per_node = nodes.experts;
}

// What a timed device is taken for: a profile that the role names may differ from what it plays.
Result<HardwareProfile> BelievedOf(const RunningService& service, Role role, const StandsFor& named,
                                   Extent extent) {
  const RolesSpec& roles = service.spec.roles;
  const bool names_one = role == Role::kAttention ? !roles.attention.hardware_profile.empty()
                                                  : !roles.experts.hardware_profile.empty();
  return names_one ? HardwareOfRole(service, role, extent) : FindHardware(named.hardware);
}

Result<HardwareProfile> ProfileOf(const RunningService& service, Role role, Extent extent) {
  return service.stands_for ? BelievedOf(service, role, *service.stands_for, extent)
                            : HardwareOfRole(service, role, extent);
}

Result<controllers::ModelShape> PredictedModel(const RunningService& service) {
  controllers::ModelShape served = ShapeOfService(service.planned);
  if (!service.stands_for) return served;
  JANUS_ASSIGN_OR_RETURN(controllers::ModelShape named,
                         controllers::FindModel(service.stands_for->model));
  if (named.experts < served.experts) {
    return InvalidArgument("a timed device cannot stand for " + service.stands_for->model +
                           " with " + std::to_string(named.experts) +
                           " experts in a layer: the served model has " +
                           std::to_string(served.experts));
  }
  return named;
}

// No time depends on the rest.
HardwareProfile TimesOf(HardwareProfile profile) {
  profile.price = HardwareProfile().price;
  profile.memory_bytes = HardwareProfile().memory_bytes;
  return profile;
}

}  // namespace

int MostMicroBatches(const MoEServiceSpec& spec) {
  if (spec.pipeline.micro_batches > 0) return spec.pipeline.micro_batches;
  const bool name_hardware = !spec.roles.attention.hardware_profile.empty() &&
                             !spec.roles.experts.hardware_profile.empty();
  return DeviceOf(spec) == Device::kCpu && !name_hardware ? 1 : kMaxMicroBatches;
}

Result<PredictorInputs> InputsOf(const RunningService& service) {
  const ServicePlan& plan = service.planned.plan;
  PredictorInputs out;
  JANUS_ASSIGN_OR_RETURN(out.attention, ProfileOf(service, Role::kAttention, Extent::kInstance));
  JANUS_ASSIGN_OR_RETURN(out.experts, ProfileOf(service, Role::kExperts, Extent::kInstance));
  JANUS_ASSIGN_OR_RETURN(out.model, PredictedModel(service));
  controllers::PredictorOptions& options = out.options;
  double experts_for_one = 1;
  if (const std::optional<StandsFor>& named = service.stands_for) {
    experts_for_one = static_cast<double>(out.model.experts) / service.planned.model.moe.experts;
    options.rows_for_one = named->rows_for_one;
    options.times_faster = named->times_faster;
    options.modes = {janus::ExchangeMode::kDirect};
  } else {
    out.shares_node = service.ground == Ground::kMachine && !plan.nodes;
    SetExchange(plan, service.ground, out);
  }
  out.spare_slots = plan.spare_slots;
  options.room = RoomOf(service, experts_for_one);
  const controllers::ScalingPolicy& policy = service.policy;
  options.max_attention = TableSize(policy, policy.attention, kMostAttentionInstances, service.m);
  const int experts = std::max(service.planned.model.moe.experts, kFewestInTable);
  options.max_experts =
      std::max(TableSize(policy, policy.experts, experts, service.n), options.room->fewest_experts);
  const int micro_batches = service.spec.pipeline.micro_batches;
  options.min_micro_batches = std::max(micro_batches, 1);
  options.max_micro_batches = MostMicroBatches(service.spec);
  return out;
}

Result<PredictionBasis> BasisOf(const RunningService& service) {
  PredictionBasis out;
  JANUS_ASSIGN_OR_RETURN(HardwareProfile attention,
                         ProfileOf(service, Role::kAttention, Extent::kSource));
  JANUS_ASSIGN_OR_RETURN(HardwareProfile experts,
                         ProfileOf(service, Role::kExperts, Extent::kSource));
  out.attention = TimesOf(std::move(attention));
  out.experts = TimesOf(std::move(experts));
  JANUS_ASSIGN_OR_RETURN(out.model, PredictedModel(service));
  if (service.spec.timed) out.timed = service.spec.timed->device();
  return out;
}

}  // namespace janus::control
