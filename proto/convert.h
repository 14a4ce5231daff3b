#pragma once

#include "common/dtype.h"
#include "common/statistics.h"
#include "common/status.h"
#include "common/topology.h"
#include "proto/topology.pb.h"

// The only place where wire types meet ours. From... judges what came from outside: unknown enum
// values, sizes that do not fit; the result still has to pass Validate(Topology).
namespace janus {

v1::Topology ToProto(const Topology& topology);
Result<Topology> FromProto(const v1::Topology& topology);

v1::InstanceStatistics ToProto(const InstanceStatistics& statistics);
InstanceStatistics FromProto(const v1::InstanceStatistics& statistics);

v1::DType ToProto(DType dtype);
v1::SchedulingPolicy ToProto(SchedulingPolicy policy);
// UNSPECIFIED gives the default named in topology.proto.
Result<SchedulingPolicy> FromProto(v1::SchedulingPolicy policy);

}  // namespace janus
