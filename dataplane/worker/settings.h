#pragma once

#include <string>

#include "common/model/description.h"
#include "common/topology.h"
#include "dataplane/attention/attention_instance.h"
#include "dataplane/experts/expert_instance.h"
#include "kernels/cpu/isa.h"
#include "kernels/device/context.h"
#include "proto/topology.pb.h"

namespace janus::dataplane {

// What a process needs to be found; all else comes with Prepare.
struct WorkerFlags {
  Role role = Role::kAttention;
  std::string model;   // checkpoint folder
  std::string listen;  // gRPC address, "unix:/path" or host:port
  std::string service_uid;
  std::string metrics = "";  // where /metrics is served: "unix:/path" or host:port; empty: nowhere
  std::string trust = "";    // folder of certificates; empty: plain text
  int drain_seconds = 300;   // from SIGTERM on, at most
  // Of a GPU: whether network devices may read and write its memory.
  bool gpu_direct = true;
};

// What is for an instance's life, with its defaults filled in, in the terms of the instances.
struct InstanceSettings {
  AttentionOptions attention;
  kernels::Isa isa = kernels::Isa::kAvx2;  // of a CPU
};

// `room` is the instance's own; of no account for experts. InvalidArgument names the field;
// ResourceExhausted: it asks for more memory than the machine has; FailedPrecondition: this CPU
// lacks what the numerics class asks for. Changes model.dtype to what the service asks for. On a
// GPU the CPU is of no account, and its memory is asked for, not counted.
Result<InstanceSettings> ResolveInstanceSettings(const v1::WorkerConfig& config,
                                                 const SequenceRoom& room, ModelDescription& model,
                                                 kernels::Context& context,
                                                 const kernels::CpuFeatures& cpu,
                                                 int64_t machine_bytes);

// What is of an epoch, likewise.
struct EpochSettings {
  AttentionPace attention;  // its deadlines are the experts', too
  SchedulingPolicy scheduling = SchedulingPolicy::kAebs;
  int crossover_rows = 0;
};

// InvalidArgument names the field.
Result<EpochSettings> ResolveEpoch(const v1::WorkerConfig& config);

// Memory of this machine.
int64_t MachineBytes();
// What comes from outside is held against the machine before anything is allocated for it, since an
// allocation that fails ends the process. ResourceExhausted names `what`.
Status CheckFits(const std::string& what, uint64_t bytes, int64_t machine_bytes);

}  // namespace janus::dataplane
