#include "operator/reconcile/epochs/compose.h"

#include <algorithm>

#include "common/fingerprint.h"
#include "common/model/identity.h"

namespace janus::control {
namespace {

// Hash of everything that all members must share, and of the other settings sent in Prepare: a
// change needs a new epoch. Settings fixed for a member's lifetime are left out, since they change
// only with the members.
std::string ConfigHash(const ServicePlan& plan, const ModelDescription& model,
                       const Topology& topology) {
  Fingerprint fingerprint;
  Mix(model, fingerprint);
  for (const int64_t number :
       {static_cast<int64_t>(plan.dtype), static_cast<int64_t>(plan.effective.scheduling),
        static_cast<int64_t>(topology.mode), static_cast<int64_t>(topology.transport),
        static_cast<int64_t>(topology.gate), static_cast<int64_t>(topology.sum),
        int64_t{topology.micro_batches}, int64_t{topology.max_rows_per_round},
        int64_t{plan.crossover_rows}, int64_t{plan.queued_requests},
        int64_t{plan.tpot_target_milliseconds},
        static_cast<int64_t>(plan.effective.prefix_cache)}) {
    fingerprint.Mix(static_cast<uint64_t>(number));
  }
  for (const uint16_t expert : topology.placement.expert_of) fingerprint.Mix(uint64_t{expert});
  return fingerprint.Hex();
}

// A node is a memory domain too.
void PutIntoNodes(int each, std::vector<Instance>& role) {
  for (size_t rank = 0; rank < role.size(); ++rank) {
    Instance& instance = role[rank];
    instance.node = std::string(ToString(instance.role)) + "-node-" +
                    std::to_string(rank / static_cast<size_t>(each));
    instance.domain = instance.node;
  }
}

}  // namespace

Result<Topology> ComposeTopology(uint64_t epoch, std::span<const WorkerSeen> workers,
                                 const ServicePlan& plan, const ModelDescription& model,
                                 const Placement* placement, bool levels) {
  Topology topology;
  topology.epoch = epoch;
  topology.mode = plan.effective.mode;
  topology.transport = plan.effective.transport;
  topology.gate = plan.effective.gate;
  topology.sum = plan.effective.sum;
  topology.micro_batches = plan.effective.micro_batches;
  topology.max_rows_per_round = plan.max_rows_per_round;

  const SequenceRoom planned{plan.max_batch_size, plan.max_model_len, plan.kv_bytes,
                             plan.swap_bytes, plan.prefix_host_bytes};
  controllers::PlacementRequest request;
  std::vector<controllers::HeldExperts> held;
  std::vector<std::string> pods;
  request.layers = model.moe_layers();
  request.experts = model.moe.experts;
  request.spare_slots = plan.spare_slots;
  request.levels = levels;
  for (const WorkerSeen& worker : workers) {
    Instance instance;
    instance.role = worker.role;
    instance.pod_uid = worker.pod_uid;
    instance.index = worker.index;
    instance.incarnation = worker.incarnation;
    instance.node = worker.node;
    instance.domain = worker.domain;
    instance.address = worker.address;
    instance.exchange_address = worker.exchange_address;
    if (worker.role == Role::kExperts) {
      instance.slots = plan.slots_per_instance + plan.spare_slots;
      request.slots_of_instance.push_back(instance.slots);
      held.push_back(worker.experts);
      pods.push_back(worker.pod_uid);
      topology.experts.push_back(std::move(instance));
    } else {
      instance.sequences = worker.held.value_or(planned);
      topology.max_rows_per_round =
          std::max(topology.max_rows_per_round, instance.sequences.max_batch_size);
      topology.attention.push_back(std::move(instance));
    }
  }
  if (plan.plays_nodes) {
    PutIntoNodes(plan.nodes->attention, topology.attention);
    PutIntoNodes(plan.nodes->experts, topology.experts);
  }
  if (topology.attention.empty() || topology.experts.empty()) {
    return InvalidArgument("topology: " + std::to_string(topology.m()) + " attention and " +
                           std::to_string(topology.n()) +
                           " expert instances; want at least one of each");
  }
  if (placement != nullptr) {
    topology.placement = *placement;
  } else {
    request.pod_of_instance = controllers::PodNumbers(pods);
    JANUS_ASSIGN_OR_RETURN(topology.placement, controllers::PlaceKeeping(request, held));
  }
  topology.config_hash = ConfigHash(plan, model, topology);
  JANUS_RETURN_IF_ERROR(Validate(topology, model.moe_layers(), model.moe.experts));
  return topology;
}

}  // namespace janus::control
