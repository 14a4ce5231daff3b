#include "dataplane/worker/instance_state.h"

#include <algorithm>
#include <utility>

#include "common/fingerprint.h"
#include "common/model/config.h"
#include "common/model/digest.h"
#include "dataplane/model/text_digest.h"
#include "kernels/cpu/isa.h"
#include "proto/convert.h"

namespace janus::dataplane {
namespace {

std::string ForLife(const v1::WorkerConfig& config) {
  v1::WorkerConfig out;
  out.set_dtype(config.dtype());
  out.set_kv_block_size(config.kv_block_size());
  out.set_isa(config.isa());
  out.set_debug_logits_hash(config.debug_logits_hash());
  out.set_fp8_kv_cache(config.fp8_kv_cache());
  // An absent value is NONE, from an operator of an older version too.
  if (config.compression() != v1::COMPRESSION_NONE) out.set_compression(config.compression());
  if (config.has_fixed_sums()) *out.mutable_fixed_sums() = config.fixed_sums();
  if (config.has_timed()) *out.mutable_timed() = config.timed();
  return out.SerializeAsString();
}

std::string ToText(const SequenceRoom& room) {
  return "max_batch_size " + std::to_string(room.max_batch_size) + ", max_model_len " +
         std::to_string(room.max_model_len) + ", kv_bytes " + std::to_string(room.kv_bytes) +
         ", swap_bytes " + std::to_string(room.swap_bytes) + ", prefix_host_bytes " +
         std::to_string(room.prefix_host_bytes);
}

// Moves tensors into the memory of the uploader's context, while that runs steps.
TensorMover MoverBy(kernels::Uploader& uploader) {
  return [&uploader](HeldTensor& held) -> Status {
    JANUS_ASSIGN_OR_RETURN(kernels::Buffer copy, uploader.Load(held.tensor.data, held.bytes));
    const auto memory = std::make_shared<const kernels::Buffer>(std::move(copy));
    held.tensor.data = memory->data();
    held.memory = {memory, memory->data()};
    return OkStatus();
  };
}

// Loads the attention weights. Steps are queued behind the load.
Result<Loaded<AttentionWeights>> LoadInto(kernels::Uploader& uploader, const std::string& folder,
                                          const ModelDescription& model, const LoadProgress& report,
                                          std::stop_token stop) {
  kernels::Context& context = uploader.context();
  if (context.is_host()) {
    return LoadAttention(folder, model, report, std::move(stop), nullptr, true);
  }
  JANUS_ASSIGN_OR_RETURN(Loaded<AttentionWeights> loaded,
                         LoadAttention(folder, model, report, std::move(stop), MoverBy(uploader)));
  JANUS_ASSIGN_OR_RETURN(const std::shared_ptr<kernels::Event> there, uploader.Loaded());
  JANUS_RETURN_IF_ERROR(context.StreamWait(*there));
  return loaded;
}

}  // namespace

Result<std::unique_ptr<InstanceState>> InstanceState::Make(
    const WorkerFlags& flags, kernels::Context& context, const v1::WorkerConfig& config,
    const SequenceRoom& room, TokenSink& sink, InstanceRecords& records, const Clock& clock,
    const Logger& log, std::stop_token departing, const LoadProgress& report,
    std::stop_token stop) {
  auto state = std::make_unique<InstanceState>();
  InstanceState& l = *state;
  l.context = &context;
  l.config = ForLife(config);
  l.room = room;
  JANUS_ASSIGN_OR_RETURN(const std::string config_text, ReadModelConfig(flags.model));
  Result<ModelDescription> model = ParseModelConfig(config_text);
  if (!model.ok()) return std::move(model).status().Annotate(flags.model + "/config.json");
  l.model = *std::move(model);
  JANUS_ASSIGN_OR_RETURN(l.settings, ResolveInstanceSettings(config, room, l.model, context,
                                                             kernels::DetectCpu(), MachineBytes()));
  l.settings.attention.log = l.experts.log = log;
  l.settings.attention.departing = l.experts.departing = std::move(departing);
  l.settings.attention.metrics = l.experts.metrics = &records.metrics;
  l.settings.attention.trace = l.experts.trace = &records.trace;
  l.experts.routing = &records.routing;
  if (config.has_timed()) {
    if (!context.is_host()) {
      return InvalidArgument("config.timed: a timed device computes on CPUs; this worker is on " +
                             context.numerics());
    }
    JANUS_ASSIGN_OR_RETURN(const TimedDevice device, FromProto(config.timed()));
    JANUS_ASSIGN_OR_RETURN(l.timed, MakeTimedModel(device, l.model));
    l.attention_pacer = MakeAttentionPacer(*l.timed);
    l.settings.attention.pacer = l.attention_pacer.get();
    log.Warning("emulated: results are delayed to match another device",
                {{"emulated", ToString(l.timed->device())}});
  }
  JANUS_ASSIGN_OR_RETURN(l.model_digest, DigestModel(flags.model, config_text, flags.commit));
  JANUS_ASSIGN_OR_RETURN(l.text_digest, DigestText(flags.model));
  JANUS_ASSIGN_OR_RETURN(l.uploader, kernels::Uploader::Make(context));
  if (flags.role != Role::kAttention) return state;
  l.answers_digest = Fingerprint()
                         .Mix(l.model_digest)
                         .Mix(static_cast<uint64_t>(l.model.dtype))
                         .Mix(uint64_t{l.settings.attention.fp8_cache})
                         .Mix(static_cast<uint64_t>(l.settings.compression))
                         .Mix(HashOf(l.settings.sums))
                         .Hex();
  JANUS_ASSIGN_OR_RETURN(l.weights,
                         LoadInto(*l.uploader, flags.model, l.model, report, std::move(stop)));
  LoadedTokenizer tokenizer = LoadTokenizer(flags.model, log);
  l.grammars = std::move(tokenizer.grammars);
  l.settings.attention.vocabulary =
      static_cast<int>(std::min<int64_t>(tokenizer.id_limit, l.model.vocab));
  l.emission = std::make_unique<EmissionThread>(sink);
  JANUS_ASSIGN_OR_RETURN(l.attention,
                         AttentionInstance::Create(l.settings.attention, l.model, l.weights.weights,
                                                   *l.emission, clock));
  return state;
}

Status InstanceState::Fits(const v1::WorkerConfig& other, const SequenceRoom& other_room) const {
  if (ForLife(other) != config) {
    return FailedPrecondition(
        "dtype, kv_block_size, isa, debug_logits_hash, fp8_kv_cache, compression, fixed_sums or "
        "timed differs from the served epoch's; changing it needs new workers");
  }
  if (attention != nullptr && other_room != room) {
    return FailedPrecondition("this instance has " + ToText(room) + "; " + ToText(other_room) +
                              " take a new worker");
  }
  return OkStatus();
}

}  // namespace janus::dataplane
