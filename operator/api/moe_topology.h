#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/topology.h"
#include "operator/api/object.h"

namespace janus::control {

// MoETopology: the committed and the proposed topology of a service. This record outlives the
// operator. Plain data as stored; the placement stays compressed.
struct TopologyInstance {
  Role role = Role::kAttention;
  std::string pod_uid;
  int32_t index = 0;  // within the pod
  int32_t incarnation = 0;
  std::string node;
  std::string domain;  // empty: the node
  std::string address;
  int32_t slots = 0;
  // Of an attention instance, as sent to it; absent: the record's value.
  std::optional<SequenceRoom> sequences = {};
};

struct TopologyRecord {
  int64_t epoch = 0;
  std::string config_hash;
  std::vector<TopologyInstance> instances;
  janus::ExchangeMode mode = janus::ExchangeMode::kDirect;
  janus::GateSide gate = janus::GateSide::kExperts;
  janus::SumRule sum = janus::SumRule::kContributions;
  int32_t micro_batches = 0;
  int32_t max_rows_per_round = 0;
  // base64 of zlib of the low bytes, then the high bytes, of uint16[layer][slot].
  std::string placement;
  std::optional<std::string> sha256;      // hash of uint16[layer][slot], little-endian
  std::optional<SequenceRoom> sequences;  // of attention instances without their own value
  std::string model = {};  // hash of model digest, numerics class and wire version; empty: from the
                           // name
};

struct MoETopologySpec {
  int64_t fence = 0;
  int64_t last_epoch = 0;
  int64_t ended_epoch = 0;  // a committed epoch that has ended; its members no longer serve
  std::string ended_at = {};
  std::optional<TopologyRecord> committed;
  std::optional<TopologyRecord> proposed;
};

struct MoETopology {
  ObjectMeta metadata;
  MoETopologySpec spec;
};

// Like ParseMoEService. Pure.
Parsed<MoETopology> ParseMoETopology(const Node& root);

// Checks every rule that needs only the object; paths are the API server's. Pure.
FieldErrors ValidateSchema(const MoETopology& topology, Scope scope = Scope::kAll);

// Fence, last epoch and the committed epoch never decrease. Pure.
FieldErrors ValidateUpdate(const MoETopology& before, const MoETopology& after);

}  // namespace janus::control
