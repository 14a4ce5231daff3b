#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/topology.h"
#include "controllers/placement.h"
#include "operator/api/moe_topology.h"
#include "operator/api/tree.h"
#include "operator/reconcile/capacity/service_planner.h"
#include "operator/reconcile/epochs/next_step.h"

namespace janus::control {

// Between the topology as workers have it and the MoETopology that records it.

// <service>-<hash of model digest, numerics class and wire version>: members of two epochs of one
// object can follow each other without a restart.
std::string TopologyName(const std::string& service, const PlannedService& planned);

// The hash in that name: what no two members of an epoch may differ in.
std::string ModelOf(const PlannedService& planned);
// The same of a record that is committed or proposed in the object of that name.
std::string ModelOf(const TopologyRecord& record, const std::string& object_name);
// The committed record of an epoch that was ended (MoETopology, endedEpoch), which is taken out:
// what decides sees a service of which nothing is committed.
std::optional<TopologyRecord> TakeEnded(MoETopology& topology);

// spec.committed or spec.proposed: docs/api.md, MoETopology. What all say alike it says once, for
// two records of the largest service must fit what etcd takes of a request (1.5 MiB).
Node RecordTree(const Topology& topology);
// The placement of a record, as RecordTree wrote it. InvalidArgument says what of it is none.
janus::Result<Placement> PlacementOf(const TopologyRecord& record);
// What each expert instance of a record has; nothing of a record whose placement is none.
std::map<InstanceId, controllers::HeldExperts> ExpertsOf(const TopologyRecord& record);
// Copies of experts, of all layers, that an instance of `after` has and did not have in `before`.
int64_t CopiesMoved(const TopologyRecord& before, const Placement& was, const TopologyRecord& after,
                    const Placement& is);
// What an attention instance of a record has for life; nothing: it is none, or it is not said.
std::optional<SequenceRoom> RoomAt(const TopologyRecord& record, const TopologyInstance& one);
std::optional<SequenceRoom> RoomOf(const TopologyRecord& record, const InstanceId& instance);

InstanceId IdOf(const TopologyInstance& one);
EpochContent ContentOf(const Topology& topology);
// What of the object decides.
EpochRecord EpochRecordOf(const MoETopology& topology);

// Of a record, those in `alive`, in its order.
std::vector<TopologyInstance> AliveOf(const TopologyRecord& record,
                                      const std::set<InstanceId>& alive);
// The instances of a record for which `other` has no place, in its order. Compared by address: the
// successor of an instance that has ended may have its address, and would receive calls to it.
std::vector<TopologyInstance> Without(const TopologyRecord& record, const TopologyRecord& other);
// The pods of a record's instances: uids.
std::set<std::string> PodsOf(const TopologyRecord& record);

}  // namespace janus::control
