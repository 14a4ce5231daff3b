#pragma once

#include <optional>
#include <string>

#include "common/fixed_point.h"
#include "common/model/description.h"
#include "common/row_format.h"
#include "common/topology.h"
#include "dataplane/attention/attention_instance.h"
#include "dataplane/experts/expert_instance.h"
#include "kernels/cpu/isa.h"
#include "kernels/device/context.h"
#include "proto/topology.pb.h"

namespace janus::dataplane {

// The flags that make a process findable; everything else is in Prepare.
struct WorkerFlags {
  Role role = Role::kAttention;
  std::string model;   // checkpoint folder
  std::string listen;  // gRPC address, "unix:/path" or host:port
  std::string service_uid;
  // If the folder is a snapshot in a hub's cache: its commit. Weights of the other role may be
  // missing there. Empty: a folder with all weights.
  std::string commit = "";
  std::string metrics = "";  // address of /metrics: "unix:/path" or host:port; empty: none
  std::string trust = "";    // folder of certificates; empty: plain text
  int drain_seconds = 300;   // at most, from SIGTERM on
  // For a GPU: whether network devices may read and write its memory.
  bool gpu_direct = true;
  // Of a supervised process (supervise/supervisor.h): its index, and the number of processes that
  // divide this machine or container. The supervisor prints when all are ready.
  std::optional<int> index = std::nullopt;
  int instances = 1;
  int pool = 1;  // of the service's pools
};

// The settings that are constant for the life of an instance, with defaults filled in.
struct InstanceSettings {
  AttentionOptions attention;
  kernels::Isa isa = kernels::Isa::kAvx2;        // for a CPU
  Compression compression = Compression::kNone;  // of the exchange
  FixedPointSums sums;                           // of the exchange
};

// `room` belongs to the instance; expert instances ignore it. InvalidArgument names the field.
// ResourceExhausted: more memory than the machine has. FailedPrecondition: this CPU lacks what the
// numerics class needs. Sets model.dtype to the type that the service asks for. On a GPU the CPU
// does not matter, and memory is requested from the device instead of counted.
Result<InstanceSettings> ResolveInstanceSettings(const v1::WorkerConfig& config,
                                                 const SequenceRoom& room, ModelDescription& model,
                                                 kernels::Context& context,
                                                 const kernels::CpuFeatures& cpu,
                                                 int64_t machine_bytes);

// The settings of one epoch, with defaults filled in.
struct EpochSettings {
  AttentionPace attention;  // the experts use its deadlines too
  SchedulingPolicy scheduling = SchedulingPolicy::kAebs;
  int crossover_rows = 0;
};

// InvalidArgument names the field.
Result<EpochSettings> ResolveEpoch(const v1::WorkerConfig& config);

// The memory of this machine.
int64_t MachineBytes();
// Compares a size from outside with the machine's memory before anything is allocated, because a
// failed allocation ends the process. ResourceExhausted names `what`.
Status CheckFits(const std::string& what, uint64_t bytes, int64_t machine_bytes);

}  // namespace janus::dataplane
