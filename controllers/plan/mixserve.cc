#include "controllers/plan/mixserve.h"

#include <algorithm>
#include <limits>

#include "controllers/plan/terms.h"

namespace janus::controllers {
namespace {

double AllReduce(double bytes, int degree, double bytes_per_second) {
  return degree < 2 ? 0 : 2 * bytes / degree / bytes_per_second;
}

double AllToAll(double bytes, int degree, double bytes_per_second) {
  return bytes / degree * (degree - 1) / bytes_per_second;
}

// Eq. 5. `rows` = b s, over all stages.
double Communication(const Setting& setting, const WholeConfiguration& how, double rows) {
  const HardwareProfile& device = setting.attention.hardware;
  const double bytes = rows / how.stages * RowBytes(setting.model);
  const int dp = how.DataParallel();
  const int ep = how.ExpertParallel();
  const bool leaves_node = how.StageGpus() > device.instances_per_node;
  const double inner = device.intra_node_bytes_per_second;
  const double links = leaves_node ? device.inter_node_bytes_per_second : inner;
  const double k = setting.model.top_k;
  const double exchanged =
      dp >= ep ? AllToAll(bytes / dp * k, ep, links) : AllToAll(bytes / ep * k, dp, links);
  // A tensor-parallel group of experts serves the rows of all attention groups in it.
  const double shared = std::max(1.0, static_cast<double>(how.tp_experts) / how.tp_attention);
  return AllReduce(bytes / dp, how.tp_attention, inner) +
         AllReduce(bytes / dp * shared, how.tp_experts, inner) + 2 * exchanged;
}

// Eq. 6.
double Service(const Setting& setting, const WholeConfiguration& how, const StepLoad& load) {
  const WholeLayerTimes ours = TimesOfWholeLayer(setting, how, load);
  const double rows = load.decode_rows + load.prompt_rows;
  const double hop = rows / how.stages / how.DataParallel() * RowBytes(setting.model) /
                     setting.attention.hardware.inter_node_bytes_per_second;
  const int layers = setting.model.layers + setting.model.dense_layers;
  return layers * (ours.attention + ours.experts + Communication(setting, how, rows)) +
         (how.stages - 1) * hop;
}

}  // namespace

MixServeTimes MixServeTimesOf(const Setting& setting, const WholeConfiguration& how, double batch,
                              const Traffic& traffic) {
  const double groups = how.DataParallel();
  const double prompt = traffic.prompt_tokens;
  MixServeTimes times;
  times.communication = Communication(setting, how, batch);
  times.inter_token = Service(setting, how, {batch, setting.context, 0, 0});
  const double prefill = Service(setting, how, {0, 1, groups * prompt, prompt / 2});
  const double served = 1 / times.inter_token;
  const double rounds = traffic.requests_per_second * traffic.output_tokens / batch;
  times.wait = rounds < served ? rounds / (served * (served - rounds))
                               : std::numeric_limits<double>::infinity();
  times.first_token = times.wait + prefill;
  times.tokens_per_second = batch * (prompt + traffic.output_tokens) /
                            (times.first_token + traffic.output_tokens * times.inter_token);
  return times;
}

}  // namespace janus::controllers
