#pragma once

#include <grpcpp/support/status.h>

#include "common/control.h"
#include "common/dtype.h"
#include "common/fetch_progress.h"
#include "common/fixed_point.h"
#include "common/gateway_counts.h"
#include "common/row_format.h"
#include "common/statistics.h"
#include "common/status.h"
#include "common/timed_device.h"
#include "common/topology.h"
#include "proto/control.pb.h"
#include "proto/fetch.pb.h"
#include "proto/topology.pb.h"

// The only code that converts between wire types and ours. From... checks values from outside:
// unknown enum values, sizes that do not fit. The result still has to pass Validate(Topology).
namespace janus {

v1::Topology ToProto(const Topology& topology);
Result<Topology> FromProto(const v1::Topology& topology);

v1::InstanceStatistics ToProto(const InstanceStatistics& statistics);
InstanceStatistics FromProto(const v1::InstanceStatistics& statistics);

// Of what came, a table of latencies that cannot be (an impossible pair, more pairs than there can
// be) is left out.
v1::GatewayCounts ToProto(const GatewayCounts& counts);
GatewayCounts FromProto(const v1::GatewayCounts& counts);

v1::Stamp ToProto(const Stamp& stamp);
Stamp FromProto(const v1::Stamp& stamp);
v1::PrepareProgress ToProto(const PrepareProgress& progress);
PrepareProgress FromProto(const v1::PrepareProgress& progress);
v1::DescribeModelReply ToProto(const ModelReport& report);
Result<ModelReport> FromProto(const v1::DescribeModelReply& reply);
v1::FetchProgress ToProto(const FetchProgress& progress);
// InvalidArgument: a negative number, or more done than there is.
Result<FetchProgress> FromProto(const v1::FetchProgress& progress);

Statistics FromProto(const v1::Statistics& statistics);

// Appends to a reply. RoutingFromProto skips invalid rounds and layers (a size that does not fit,
// an impossible expert or layer).
void AddToProto(const RoutingStatistics& routing, v1::Statistics& to);
RoutingStatistics RoutingFromProto(const v1::Statistics& statistics);

// Appends to a reply. TracesFromProto skips traces without spans, and those whose lists differ in
// length or have impossible entries.
void AddToProto(const std::vector<StepTrace>& traces, v1::Statistics& to);
std::vector<StepTrace> TracesFromProto(const v1::Statistics& statistics);

// Into a reply that has no gateways yet. What came is joined as JoinGateways says: no gateway comes
// twice, and the bound holds.
void AddToProto(const GatewayReports& reports, v1::Statistics& to);
GatewayReports GatewaysFromProto(const v1::Statistics& statistics);
v1::TimedDevice ToProto(const TimedDevice& device);
// InvalidArgument: a factor that does not fit; names and bounds are TimedModel::Make's to judge.
Result<TimedDevice> FromProto(const v1::TimedDevice& device);

v1::DType ToProto(DType dtype);
v1::SchedulingPolicy ToProto(SchedulingPolicy policy);
// UNSPECIFIED gives the default named in topology.proto.
Result<SchedulingPolicy> FromProto(v1::SchedulingPolicy policy);
v1::Compression ToProto(Compression compression);
v1::FixedSums ToProto(const FixedPointSums& sums);
v1::PrefixSharing ToProto(PrefixSharing sharing);
// InvalidArgument: unknown to this version.
Result<Compression> FromProto(v1::Compression compression);
// InvalidArgument: an exponent that is no int8. Validate checks the rest.
Result<FixedPointSums> FromProto(const v1::FixedSums& sums);
Result<PrefixSharing> FromProto(v1::PrefixSharing sharing);

// Both use the same numbers. 16, UNAUTHENTICATED, becomes PermissionDenied, because callers act the
// same on both. A code that gRPC does not define becomes Unknown.
grpc::Status ToGrpc(const Status& status);
Status FromGrpc(const grpc::Status& status);
Status FromGrpc(uint32_t code, std::string message);

}  // namespace janus
