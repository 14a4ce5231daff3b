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
#include "dataplane/experts/routing_record.h"
#include "dataplane/model/load_weights.h"
#include "dataplane/steps/step_metrics.h"
#include "dataplane/steps/step_trace_record.h"
#include "dataplane/worker/grammars.h"
#include "dataplane/worker/settings.h"
#include "dataplane/worker/timed/make_model.h"
#include "dataplane/worker/timed/pacers.h"
#include "kernels/device/uploader.h"

namespace janus::dataplane {

// What an instance notes beside serving, over its epochs.
struct InstanceRecords {
  StepMetrics metrics;
  StepTraceRecord trace;
  RoutingRecord routing;  // of an expert instance
};

// The parts of a worker that outlive epochs (docs/design/007). Constant once made, except for the
// instance, which is thread-safe, and the uploader, which belongs to the thread that prepares an
// epoch.
struct InstanceState {
  // `context`: where the worker computes. `room`: of this instance. The referenced objects outlive
  // it. `report` gets the progress in bytes of weights. Errors: those of the configuration
  // (ResolveInstanceSettings, AttentionInstance::Create, MakeTimedModel), of the checkpoint
  // (LoadAttention), of the device (kernels::Uploader), and Cancelled.
  static Result<std::unique_ptr<InstanceState>> Make(
      const WorkerFlags& flags, kernels::Context& context, const v1::WorkerConfig& config,
      const SequenceRoom& room, TokenSink& sink, InstanceRecords& records, const Clock& clock,
      const Logger& log, std::stop_token departing, const LoadProgress& report,
      std::stop_token stop);
  // Whether an epoch with this configuration and room can use the instance. FailedPrecondition: a
  // setting that is constant for the life of the instance differs.
  Status Fits(const v1::WorkerConfig& config, const SequenceRoom& room) const;

  kernels::Context* context = nullptr;
  std::unique_ptr<kernels::Uploader> uploader;  // into the context's memory
  std::string config;                           // the constant settings, serialized
  SequenceRoom room;
  ModelDescription model;
  InstanceSettings settings;
  ExpertOptions experts;  // without the settings of an epoch
  // Of a timed device; else null.
  std::unique_ptr<const TimedModel> timed;
  std::unique_ptr<AttentionPacer> attention_pacer;
  uint64_t model_digest = 0;
  // For attention instances: digests as in Welcome (proto/tokens.proto).
  std::string answers_digest;
  std::string text_digest;
  // For attention instances, like the members below. In the context's memory.
  Loaded<AttentionWeights> weights;
  std::unique_ptr<Grammars> grammars;  // null: the model has no tokenizer that can be read
  std::unique_ptr<EmissionThread> emission;
  std::unique_ptr<AttentionInstance> attention;
};

}  // namespace janus::dataplane
