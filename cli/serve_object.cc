#include "cli/serve_object.h"

#include <filesystem>
#include <utility>

#include "cli/service_file.h"
#include "common/model/config.h"
#include "controllers/timed/timed_model.h"

namespace janus::cli {
namespace {

// Expert instances that hold the model, on timed devices.
Result<int> FewestExperts(const TimedDevice& device, const std::string& model_dir) {
  JANUS_ASSIGN_OR_RETURN(const ModelDescription model, LoadModelConfig(model_dir));
  JANUS_ASSIGN_OR_RETURN(const auto timed,
                         controllers::TimedModel::Make(
                             device, {model.moe_layers(), model.moe.experts, model.moe.top_k}));
  return (model.moe.experts + timed.slots() - 1) / timed.slots();
}

Result<hub::ModelId> ReadSource(const control::HuggingFaceSource& source) {
  hub::ModelId out;
  out.repo = source.repo;
  if (!source.revision.empty()) out.revision = source.revision;
  Status status = hub::CheckRepo(out.repo);
  if (status.ok()) status = hub::CheckRevision(out.revision);
  if (!status.ok()) return std::move(status).Annotate("spec.model.source.huggingFace");
  return out;
}

// The object for --model, whose checkpoint lies in `dir`.
Result<std::string> ComposeObject(const ServeOptions& options, const Asked& of,
                                  const std::string& dir) {
  const std::optional<hub::ModelId>& model = of.hub;
  if (options.sum != "FixedPoint" && (!options.sum_exponents.empty() || options.sum_bits != 32)) {
    return InvalidArgument(
        "--sum-bits and --sum-exponents belong to --sum FixedPoint; ask for it, or leave them out");
  }
  ServiceAsked asked{options.name,
                     "",
                     dir,
                     options.attention,
                     options.experts,
                     options.timed,
                     options.tpot_milliseconds,
                     options.micro_batches,
                     options.exchange_mode,
                     options.compression,
                     options.gate,
                     options.transport,
                     options.sum,
                     options.sum_bits,
                     options.sum_exponents,
                     options.pools};
  asked.gpus = static_cast<int>(of.gpus.size());
  if (options.nodes) {
    asked.attention = options.nodes->attention_nodes * options.nodes->attention_each;
    asked.experts = options.nodes->expert_nodes * options.nodes->experts_each;
  }
  const bool is_fixed = !options.tpot_milliseconds;
  if (is_fixed && !asked.attention) asked.attention = 1;
  if (is_fixed && !asked.experts) asked.experts = 1;
  if (is_fixed && options.timed && !options.experts && !options.nodes) {
    JANUS_ASSIGN_OR_RETURN(asked.experts, FewestExperts(*options.timed, dir));
  }
  const std::string named = model ? model->repo : dir;
  if (asked.name.empty()) {
    asked.name = ServiceNameFor(named);
    if (ModelNameFor(named) != asked.name) asked.model_name = ModelNameFor(named);
  } else {
    JANUS_RETURN_IF_ERROR(CheckServiceName(asked.name));
  }
  if (model) asked.model_name = model->repo;
  return ComposeServiceText(asked);
}

}  // namespace

Result<Asked> ReadAsked(const ServeOptions& options) {
  Asked out;
  if (options.model_dir.empty()) {
    JANUS_ASSIGN_OR_RETURN(out.text, ReadTextFile(options.file));
    if (options.timed) {
      JANUS_ASSIGN_OR_RETURN(out.text, WithTimedDevice(out.text, options.file, *options.timed));
    }
    JANUS_ASSIGN_OR_RETURN(const control::MoEService service,
                           ParseServiceText(out.text, options.file));
    if (service.spec.model.source.hugging_face) {
      JANUS_ASSIGN_OR_RETURN(out.hub, ReadSource(*service.spec.model.source.hugging_face));
    }
    return out;
  }
  std::error_code error;
  // A folder of that name goes first.
  if (std::filesystem::exists(options.model_dir, error)) return out;
  if (hub::LooksLikeModelId(options.model_dir)) {
    JANUS_ASSIGN_OR_RETURN(out.hub, hub::ParseModelId(options.model_dir));
  }
  return out;
}

Result<Object> MakeObject(const ServeOptions& options, const Asked& asked,
                          const std::string& folder) {
  Object out;
  std::string file = options.file;
  if (!options.model_dir.empty()) {
    std::error_code error;
    const std::string dir =
        asked.hub ? folder
                  : std::filesystem::absolute(options.model_dir, error).lexically_normal().string();
    file = "service.yaml";
    JANUS_ASSIGN_OR_RETURN(out.text, ComposeObject(options, asked, dir));
  } else if (asked.hub) {
    JANUS_ASSIGN_OR_RETURN(out.text, WithModelFolder(asked.text, file, folder));
  } else {
    out.text = asked.text;
  }
  JANUS_ASSIGN_OR_RETURN(out.service, ParseServiceText(out.text, file));
  return out;
}

}  // namespace janus::cli
