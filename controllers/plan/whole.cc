#include "controllers/plan/whole.h"

#include <algorithm>
#include <cmath>

#include "controllers/plan/terms.h"

namespace janus::controllers {
namespace {

int NodesOfStage(const Setting& setting, const WholeConfiguration& how) {
  return NodesOf(how.StageGpus(), 1, setting.attention.hardware.instances_per_node);
}

// DeepEP's form: a row leaves in fp8 once per chosen expert and comes back in bf16. This GPU sends
// `sent` rows, over `nodes`.
double AllToAllSeconds(const Setting& setting, double sent, double nodes) {
  const ModelShape& model = setting.model;
  const double bytes = sent * model.top_k * model.hidden;
  const auto experts = static_cast<double>(model.experts);
  return ExchangeSeconds(setting.attention.dispatch, {sent, bytes, experts, nodes}) +
         ExchangeSeconds(setting.attention.combine, {sent, 2 * bytes, experts, nodes});
}

// The cost of experts spread over a stage, besides their kernels. `sent`: rows of the tokens on
// this GPU, not counted again within an attention group.
double ExpertExchangeSeconds(const Setting& setting, const WholeConfiguration& how, double sent) {
  const double row = RowBytes(setting.model);
  const int parallel = how.ExpertParallel();
  const double all = sent * how.StageGpus();
  if (how.StageGpus() == 1) return 0;
  if (how.splits_experts_across_nodes) {
    // Every node computes a part of every row's experts: rows go to all nodes, partial results come
    // back.
    const double away = how.tp_experts - 1;
    return HopSeconds(setting.attention.dispatch, away, away * sent * row) +
           HopSeconds(setting.attention.combine, away, away * sent * row) +
           AllToAllSeconds(setting, sent * how.tp_experts, 1);
  }
  // Without expert parallelism, every GPU computes a part of every row.
  if (parallel == 1) return AllReduceSeconds(setting.attention, how.tp_experts, all * row);
  double seconds = AllToAllSeconds(setting, sent, NodesOfStage(setting, how));
  if (how.tp_experts > 1) {
    const double needed = all * InstancesNeeded(setting.model, parallel) / parallel;
    seconds += AllReduceSeconds(setting.attention, how.tp_experts, needed * row);
  }
  return seconds;
}

// The rows of the busiest attention group: at least one row.
AttentionRows RowsOfGroup(const Setting& setting, const WholeConfiguration& how,
                          const StepLoad& load) {
  const double groups = static_cast<double>(how.DataParallel()) * how.stages;
  AttentionRows rows;
  rows.decode = load.decode_rows / groups;
  rows.prompt = load.prompt_rows / groups;
  if (load.decode_rows > 0 || load.prompt_rows == 0) rows.decode = std::max(rows.decode, 1.0);
  rows.context = load.context * BusiestKeysFactor(setting, how.DataParallel(),
                                                  std::max(load.decode_rows / groups, 1.0));
  rows.prompt_keys = load.prompt_keys;
  return rows;
}

}  // namespace

std::string NameOf(const WholeConfiguration& how) {
  const auto block = [](int tensor, int other, const char* kind, bool across) {
    const std::string tp = tensor > 1 ? "TP" + std::to_string(tensor) : "";
    const std::string rest = other > 1 ? kind + std::to_string(other) : "";
    if (tp.empty() && rest.empty()) return std::string(kind) + "1";
    if (tp.empty() || rest.empty()) return tp + rest;
    return across ? rest + "x" + tp : tp + "x" + rest;
  };
  return block(how.tp_attention, how.DataParallel(), "DP", false) + " " +
         block(how.tp_experts, how.ExpertParallel(), "EP", how.splits_experts_across_nodes) +
         (how.stages > 1 ? " PP" + std::to_string(how.stages) : "");
}

WholeLayerTimes TimesOfWholeLayer(const Setting& setting, const WholeConfiguration& how,
                                  const StepLoad& load) {
  const AttentionRows rows = RowsOfGroup(setting, how, load);
  Configuration experts;
  experts.n = how.ExpertParallel();
  experts.tp_experts = how.tp_experts;
  const double slots = std::ceil(static_cast<double>(setting.model.experts) / experts.n);
  WholeLayerTimes times;
  times.attention = AttentionSeconds(setting, how.tp_attention, rows) +
                    SharedSeconds(setting, how.tp_attention, rows.all());
  times.experts = ExpertKernelSeconds(setting, experts, slots,
                                      (load.decode_rows + load.prompt_rows) / how.stages, nullptr);
  times.exchange = ExpertExchangeSeconds(setting, how, rows.all() / how.tp_attention);
  return times;
}

double WholeStepSeconds(const Setting& setting, const WholeConfiguration& how,
                        const StepLoad& load) {
  const ModelShape& model = setting.model;
  const AttentionRows rows = RowsOfGroup(setting, how, load);
  double seconds = model.layers * TimesOfWholeLayer(setting, how, load).layer() +
                   DenseStepSeconds(setting, how.tp_attention, rows);
  if (how.stages > 1) {
    const double layers = model.layers + model.dense_layers;
    seconds *= std::ceil(layers / how.stages) * how.stages / layers;
    seconds += (how.stages - 1) * HopSeconds(setting.attention.dispatch, 1,
                                             rows.all() * RowBytes(model) / how.tp_attention);
  }
  return seconds;
}

double WholeTimePerOutputToken(const Setting& setting, const WholeConfiguration& how,
                               double batch) {
  return WholeStepSeconds(setting, how, {batch, setting.context, 0, 0});
}

double WholeBytes(const Setting& setting, const WholeConfiguration& how, double batch) {
  const ModelShape& model = setting.model;
  // Embedding and output head are on the first and the last stage.
  const double ends = 2 * model.vocab * model.hidden * model.DenseBytesPerWeight();
  const double attention =
      (model.AttentionBytes() - ends) / how.stages + (how.stages > 1 ? ends / 2 : ends);
  const double slots = std::ceil(static_cast<double>(model.experts) / how.ExpertParallel());
  const double layers = std::ceil(static_cast<double>(model.layers) / how.stages);
  const double sequences = batch / how.DataParallel();
  return attention / how.tp_attention + slots * layers * model.ExpertBytes() / how.tp_experts +
         sequences * setting.context * model.KvBytesPerToken(how.tp_attention) / how.stages +
         BufferBytes(model, sequences / how.tp_attention / how.stages);
}

double WholeKvTokens(const Setting& setting, const WholeConfiguration& how) {
  Setting empty = setting;
  empty.context = 0;
  const double room = setting.memory_share * setting.attention.hardware.memory_bytes;
  const double left = room - WholeBytes(empty, how, kBufferRows * how.gpus);
  const double groups = static_cast<double>(how.DataParallel()) * how.stages;
  return std::max(left * groups / setting.model.KvBytesPerToken(how.tp_attention), 0.0);
}

double WholeRoom(const Setting& setting, const WholeConfiguration& how) {
  const double weights = WholeBytes(setting, how, 0);
  const double one = WholeBytes(setting, how, 1) - weights;
  const double room = setting.memory_share * setting.attention.hardware.memory_bytes;
  return std::max(std::floor((room - weights) / one), 0.0);
}

}  // namespace janus::controllers
