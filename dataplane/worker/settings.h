#pragma once

#include <string>

#include "common/model/description.h"
#include "common/topology.h"
#include "dataplane/attention/attention_instance.h"
#include "dataplane/experts/expert_instance.h"
#include "kernels/cpu/isa.h"
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
};

// What of a WorkerConfig is for an instance's life, with its defaults filled in, in the terms of
// the instances.
struct WorkerSettings {
  AttentionOptions attention;
  ExpertOptions experts;
  kernels::Isa isa = kernels::Isa::kAvx2;
};

// InvalidArgument names the field of the configuration; ResourceExhausted: it asks for more memory
// than the machine has; FailedPrecondition: this CPU lacks what the numerics class asks for.
// Changes model.dtype to what the service asks for.
Result<WorkerSettings> ResolveSettings(const v1::WorkerConfig& config, ModelDescription& model,
                                       const kernels::CpuFeatures& cpu, int64_t machine_bytes);

// Memory of this machine.
int64_t MachineBytes();
// What comes from outside is held against the machine before anything is allocated for it, since an
// allocation that fails ends the process. ResourceExhausted names `what`.
Status CheckFits(const std::string& what, uint64_t bytes, int64_t machine_bytes);

}  // namespace janus::dataplane
