#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "common/clock.h"
#include "common/control.h"
#include "common/log.h"
#include "dataplane/attention/attention_instance.h"
#include "dataplane/engine/emission_thread.h"
#include "dataplane/model/load_weights.h"
#include "dataplane/steps/step_metrics.h"
#include "dataplane/worker/settings.h"
#include "kernels/device/uploader.h"

namespace janus::dataplane {

// What of a worker lasts over epochs (docs/design/007). Constant once it is made, but for the
// instance, which is thread-safe, and the uploader, which is the thread's that prepares an epoch.
struct InstanceState {
  // `context`: where the worker computes. `room`: the instance's own. The referenced objects
  // outlive it. `report` gets the bytes of weights. Errors: those of the configuration
  // (ResolveInstanceSettings, AttentionInstance::Create), of the checkpoint (LoadAttention), of the
  // device (kernels::Uploader), and Cancelled.
  static Result<std::unique_ptr<InstanceState>> Make(
      const WorkerFlags& flags, kernels::Context& context, const v1::WorkerConfig& config,
      const SequenceRoom& room, TokenSink& sink, StepMetrics& metrics, const Clock& clock,
      const Logger& log, std::stop_token departing, const LoadProgress& report,
      std::stop_token stop);
  // Why an epoch may not follow that says this of the instance: OK, or FailedPrecondition that says
  // what of it is for life.
  Status Fits(const v1::WorkerConfig& config, const SequenceRoom& room) const;

  kernels::Context* context = nullptr;
  std::unique_ptr<kernels::Uploader> uploader;  // into the context's memory
  std::string config;                           // what of it is for life, serialized
  SequenceRoom room;
  ModelDescription model;
  InstanceSettings settings;
  ExpertOptions experts;  // without what is of an epoch
  uint64_t model_digest = 0;
  // As Welcome has them (proto/tokens.proto). Of attention instances.
  std::string answers_digest;
  std::string text_digest;
  // In the context's memory; of attention instances, as what follows.
  Loaded<AttentionWeights> weights;
  std::unique_ptr<EmissionThread> emission;
  std::unique_ptr<AttentionInstance> attention;
};

}  // namespace janus::dataplane
