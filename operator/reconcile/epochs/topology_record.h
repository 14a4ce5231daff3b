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

// Converts between the topology for workers and the MoETopology that records it.

// <service>-<hash of model digest, numerics class and wire version>. Members of two epochs of the
// same object can follow each other without a restart.
std::string TopologyName(const std::string& service, const PlannedService& planned);

// The hash in that name: what all members of an epoch must have in common.
std::string ModelOf(const PlannedService& planned);
// The same for a committed or proposed record in the object of that name.
std::string ModelOf(const TopologyRecord& record, const std::string& object_name);
// Removes the committed record of an ended epoch (MoETopology, endedEpoch) and returns it, so that
// decisions see a service without a committed epoch.
std::optional<TopologyRecord> TakeEnded(MoETopology& topology);

// spec.committed or spec.proposed (docs/api.md, MoETopology). Values common to all instances are
// stored once: two records of the largest service must fit etcd's request limit (1.5 MiB).
Node RecordTree(const Topology& topology);
// The placement of a record written by RecordTree. InvalidArgument says what is wrong with it.
janus::Result<Placement> PlacementOf(const TopologyRecord& record);
// The experts on each expert instance of a record; empty if its placement is invalid.
std::map<InstanceId, controllers::HeldExperts> ExpertsOf(const TopologyRecord& record);
// Number of expert copies, over all layers, that instances have in `after` but not in `before`.
int64_t CopiesMoved(const TopologyRecord& before, const Placement& was, const TopologyRecord& after,
                    const Placement& is);
// An attention instance's sequence room, fixed for its lifetime; nothing: not an attention
// instance, or not recorded.
std::optional<SequenceRoom> RoomAt(const TopologyRecord& record, const TopologyInstance& one);
std::optional<SequenceRoom> RoomOf(const TopologyRecord& record, const InstanceId& instance);

InstanceId IdOf(const TopologyInstance& one);
EpochContent ContentOf(const Topology& topology);
EpochContent ContentOf(const TopologyRecord& record);
// The part of the object that decisions use.
EpochRecord EpochRecordOf(const MoETopology& topology);

// The instances of a record that are in `alive`, in the record's order.
std::vector<TopologyInstance> AliveOf(const TopologyRecord& record,
                                      const std::set<InstanceId>& alive);
// The instances of a record without a place in `other`, in the record's order. Compared by address,
// because a successor may have the address of an ended instance and would receive its calls.
std::vector<TopologyInstance> Without(const TopologyRecord& record, const TopologyRecord& other);
// uids of the pods of a record's instances.
std::set<std::string> PodsOf(const TopologyRecord& record);

}  // namespace janus::control
