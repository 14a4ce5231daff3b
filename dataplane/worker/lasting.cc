#include "dataplane/worker/lasting.h"

#include <utility>

#include "common/model/config.h"
#include "dataplane/model/digest.h"
#include "kernels/cpu/isa.h"

namespace janus::dataplane {
namespace {

std::string TextOf(v1::WorkerConfig config) {
  // Of each epoch: another number of workers on the machine.
  config.clear_machine_threads();
  config.clear_compute_threads();
  return config.SerializeAsString();
}

}  // namespace

Result<std::unique_ptr<Lasting>> Lasting::Make(const WorkerFlags& flags,
                                               const v1::WorkerConfig& config, TokenSink& sink,
                                               Histogram& step_seconds, const Clock& clock,
                                               const Logger& log, std::stop_token departing,
                                               const LoadProgress& report, std::stop_token stop) {
  auto lasting = std::make_unique<Lasting>();
  Lasting& l = *lasting;
  l.config = TextOf(config);
  JANUS_ASSIGN_OR_RETURN(const std::string config_text, ReadModelConfig(flags.model));
  Result<ModelDescription> model = ParseModelConfig(config_text);
  if (!model.ok()) return std::move(model).status().Annotate(flags.model + "/config.json");
  l.model = *std::move(model);
  JANUS_ASSIGN_OR_RETURN(l.settings,
                         ResolveSettings(config, l.model, kernels::DetectCpu(), MachineBytes()));
  l.settings.attention.log = l.settings.experts.log = log;
  l.settings.attention.departing = l.settings.experts.departing = std::move(departing);
  l.settings.attention.step_seconds = l.settings.experts.step_seconds = &step_seconds;
  JANUS_ASSIGN_OR_RETURN(l.model_digest, DigestCheckpoint(flags.model, config_text));
  if (flags.role != Role::kAttention) return lasting;
  JANUS_ASSIGN_OR_RETURN(l.attention_weights,
                         LoadAttention(flags.model, l.model, report, std::move(stop)));
  l.emission = std::make_unique<EmissionThread>(sink);
  JANUS_ASSIGN_OR_RETURN(
      l.attention, AttentionInstance::Create(l.settings.attention, l.model,
                                             l.attention_weights.weights, *l.emission, clock));
  return lasting;
}

bool Lasting::Fits(const v1::WorkerConfig& other) const {
  return TextOf(other) == config;
}

}  // namespace janus::dataplane
