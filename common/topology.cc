#include "common/topology.h"

#include <numeric>

#include "common/fingerprint.h"

namespace janus {

std::string_view ToString(Role role) {
  return role == Role::kAttention ? "attention" : "experts";
}

std::string_view ToString(ExchangeMode mode) {
  switch (mode) {
    case ExchangeMode::kDirect:
      return "Direct";
    case ExchangeMode::kTwoPhaseSingle:
      return "TwoPhaseSingle";
    case ExchangeMode::kTwoPhaseParallel:
      return "TwoPhaseParallel";
  }
  return "unknown";
}

std::string_view ToString(ExchangeTransport transport) {
  switch (transport) {
    case ExchangeTransport::kAuto:
      return "Auto";
    case ExchangeTransport::kSharedMemory:
      return "SharedMemory";
    case ExchangeTransport::kTcp:
      return "TCP";
    case ExchangeTransport::kRdma:
      return "RDMA";
  }
  return "unknown";
}

std::string_view ToString(SchedulingPolicy policy) {
  switch (policy) {
    case SchedulingPolicy::kAebs:
      return "AEBS";
    case SchedulingPolicy::kAebsGreedy:
      return "AEBSGreedy";
    case SchedulingPolicy::kRandom:
      return "Random";
    case SchedulingPolicy::kStatic:
      return "Static";
  }
  return "unknown";
}

int Placement::total_slots() const {
  return std::accumulate(slots_of_instance.begin(), slots_of_instance.end(), 0);
}

int Placement::first_slot(Rank instance) const {
  return std::accumulate(slots_of_instance.begin(), slots_of_instance.begin() + instance.value, 0);
}

Status Validate(const Placement& placement, int layers, int experts) {
  const int slots = placement.total_slots();
  if (placement.layers != layers) {
    return InvalidArgument("placement: " + std::to_string(placement.layers) +
                           " layers, the model has " + std::to_string(layers));
  }
  if (placement.expert_of.size() != static_cast<size_t>(layers) * static_cast<size_t>(slots)) {
    return InvalidArgument("placement: " + std::to_string(placement.expert_of.size()) +
                           " entries, want layers x slots = " + std::to_string(layers) + " x " +
                           std::to_string(slots));
  }
  std::vector<int> seen_on(static_cast<size_t>(experts));
  for (int layer = 0; layer < layers; ++layer) {
    // seen_on[e]: 1 + the last instance found to hold e in this layer.
    std::fill(seen_on.begin(), seen_on.end(), 0);
    int slot = 0;
    for (size_t instance = 0; instance < placement.slots_of_instance.size(); ++instance) {
      for (int i = 0; i < placement.slots_of_instance[instance]; ++i, ++slot) {
        const uint16_t expert = placement.at(layer, slot);
        if (expert == Placement::kEmpty) continue;
        const std::string where =
            "placement: layer " + std::to_string(layer) + " slot " + std::to_string(slot);
        if (expert >= experts) {
          return InvalidArgument(where + ": expert " + std::to_string(expert) + ", the model has " +
                                 std::to_string(experts));
        }
        if (seen_on[expert] == static_cast<int>(instance) + 1) {
          return InvalidArgument(where + ": a second replica of expert " + std::to_string(expert) +
                                 " on instance " + std::to_string(instance));
        }
        seen_on[expert] = static_cast<int>(instance) + 1;
      }
    }
    for (int expert = 0; expert < experts; ++expert) {
      if (seen_on[static_cast<size_t>(expert)] == 0) {
        return InvalidArgument("placement: layer " + std::to_string(layer) + ": expert " +
                               std::to_string(expert) + " has no replica");
      }
    }
  }
  return OkStatus();
}

uint64_t TopologyHash(const Topology& topology) {
  Fingerprint hash;
  const auto number = [&](auto value) { hash.Mix(static_cast<uint64_t>(value)); };
  // With its length, so that neighbouring texts cannot be confused.
  const auto text = [&](const std::string& value) { hash.Mix(uint64_t{value.size()}).Mix(value); };
  number(topology.epoch);
  for (const std::vector<Instance>* role : {&topology.attention, &topology.experts}) {
    number(role->size());
    for (const Instance& instance : *role) {
      text(instance.pod_uid);
      number(instance.index);
      number(instance.incarnation);
      text(instance.node);
      text(instance.domain);
      text(instance.address);
      text(instance.exchange_address);
      number(instance.slots);
      number(instance.sequences.max_batch_size);
      number(instance.sequences.max_model_len);
      number(instance.sequences.kv_bytes);
      number(instance.sequences.swap_bytes);
      number(instance.sequences.prefix_host_bytes);
    }
  }
  number(topology.mode);
  number(topology.transport);
  number(topology.gate);
  number(topology.sum);
  number(topology.micro_batches);
  number(topology.max_rows_per_round);
  number(topology.placement.layers);
  for (const int slots : topology.placement.slots_of_instance) number(slots);
  for (const uint16_t expert : topology.placement.expert_of) number(expert);
  text(topology.config_hash);
  return hash.value();
}

Status Validate(const Topology& topology, int layers, int experts) {
  if (topology.epoch == 0) return InvalidArgument("topology: epoch 0; the first epoch is 1");
  if (topology.m() < 1 || topology.m() > kMaxAttentionInstances) {
    return InvalidArgument("topology: " + std::to_string(topology.m()) +
                           " attention instances, want 1.." +
                           std::to_string(kMaxAttentionInstances));
  }
  if (topology.n() < 1 || topology.n() > kMaxExpertInstances) {
    return InvalidArgument("topology: " + std::to_string(topology.n()) +
                           " expert instances, want 1.." + std::to_string(kMaxExpertInstances));
  }
  if (topology.micro_batches < 1 || topology.micro_batches > kMaxMicroBatches) {
    return InvalidArgument("topology: " + std::to_string(topology.micro_batches) +
                           " micro-batches, want 1..4");
  }
  if (topology.max_rows_per_round < 1 || topology.max_rows_per_round > 65535) {
    return InvalidArgument("topology: " + std::to_string(topology.max_rows_per_round) +
                           " rows per round, want 1..65535");
  }
  if (topology.placement.slots_of_instance.size() != topology.experts.size()) {
    return InvalidArgument("topology: placement for " +
                           std::to_string(topology.placement.slots_of_instance.size()) +
                           " expert instances, the topology has " + std::to_string(topology.n()));
  }
  for (size_t rank = 0; rank < topology.experts.size(); ++rank) {
    if (topology.experts[rank].slots != topology.placement.slots_of_instance[rank]) {
      return InvalidArgument("topology: expert instance " + std::to_string(rank) + " has " +
                             std::to_string(topology.experts[rank].slots) +
                             " slots, the placement " +
                             std::to_string(topology.placement.slots_of_instance[rank]));
    }
  }
  return Validate(topology.placement, layers, experts);
}

}  // namespace janus
