#include "controllers/plan/performance.h"

#include <algorithm>
#include <cmath>

#include "controllers/plan/terms.h"

namespace janus::controllers {
namespace {

// The rows of a step for the busiest attention instance: at least one row.
AttentionRows RowsOfOne(const StepLoad& load, int instances, double context) {
  AttentionRows rows;
  rows.decode = load.decode_rows / instances;
  rows.prompt = load.prompt_rows / instances;
  if (load.decode_rows > 0 || load.prompt_rows == 0) rows.decode = std::max(rows.decode, 1.0);
  rows.decode *= load.rows_for_one;
  rows.prompt *= load.rows_for_one;
  rows.context = context;
  rows.prompt_keys = load.prompt_keys;
  return rows;
}

}  // namespace

double BufferBytes(const ModelShape& model, double rows) {
  return 2 * rows * (1 + model.top_k) * RowBytes(model);
}

Parts PartsOf(const StepLoad& load, int attention_instances, int micro_batches) {
  const double rows = load.decode_rows + load.prompt_rows;
  const double most = micro_batches;
  return {std::clamp(rows / attention_instances, 1.0, most), std::clamp(rows, 1.0, most)};
}

double ComposeLayer(const LayerTimes& terms, const Parts& parts) {
  const double away = terms.experts + terms.out + terms.back;
  // The share of shared experts that another micro-batch does not wait for.
  const double exposed = std::min(parts.of_one - 1, 1.0) * terms.shared;
  const double all = terms.attention + std::max(away + exposed, terms.shared);
  const double own = parts.of_one * (terms.attention + exposed);
  return std::max({all, own, parts.of_all * terms.experts, parts.of_all * terms.out,
                   parts.of_all * terms.back});
}

LayerTimes TimesOfLayer(const Setting& setting, const Configuration& how, const StepLoad& load) {
  const Parts parts = PartsOf(load, how.m, how.micro_batches);
  StepLoad part = load;
  part.decode_rows /= parts.of_one;
  part.prompt_rows /= parts.of_one;
  const double all = load.rows_for_one * (load.decode_rows + load.prompt_rows) / parts.of_all;
  const double busiest = BusiestKeysFactor(setting, how.m, std::max(part.decode_rows / how.m, 1.0));
  const AttentionRows rows = RowsOfOne(part, how.m, load.context * busiest);
  LayerTimes times;
  times.attention = AttentionSeconds(setting, how.tp_attention, rows);
  times.shared = SharedSeconds(setting, how.tp_attention, rows.all());
  times.experts = ExpertSeconds(setting, how, all, &times.activated_busiest);
  const ExchangeTimes exchange = TimesOfExchange(setting, how, all);
  times.out = exchange.out;
  times.back = exchange.back;
  times.layer = ComposeLayer(times, parts);
  return times;
}

LayerTimes TimesOfLayer(const Setting& setting, const Configuration& how, double batch) {
  return TimesOfLayer(setting, how, StepLoad{batch, setting.context, 0, 0});
}

StepTimes TimesOfStep(const Setting& setting, const Configuration& how, const StepLoad& load) {
  const LayerTimes layer = TimesOfLayer(setting, how, load);
  const double dense =
      DenseStepSeconds(setting, how.tp_attention, RowsOfOne(load, how.m, load.context));
  const Parts parts = PartsOf(load, how.m, how.micro_batches);
  const double rounds = setting.model.layers * parts.of_all;
  StepTimes times;
  times.attention = setting.model.layers * parts.of_one * (layer.attention + layer.shared) + dense;
  times.experts = rounds * layer.experts;
  times.exchange = rounds * (layer.out + layer.back);
  times.step = setting.model.layers * layer.layer + dense;
  return times;
}

double TimePerOutputToken(const Setting& setting, const Configuration& how, double batch) {
  return TimesOfStep(setting, how, {batch, setting.context, 0, 0}).step;
}

double MegaScaleIterationSeconds(double attention, double experts, double communication,
                                 int micro_batches, int layers) {
  return attention + experts + 2 * communication +
         std::max(attention, experts) * (static_cast<double>(micro_batches) * layers - 1);
}

MemoryUse MemoryOf(const Setting& setting, const Configuration& how, double batch) {
  const ModelShape& model = setting.model;
  MemoryUse use;
  use.attention_bytes = model.AttentionBytes() / how.tp_attention +
                        batch / how.m * setting.context * model.KvBytesPerToken(how.tp_attention) +
                        BufferBytes(model, batch / how.m);
  const double slots =
      std::max<double>(how.slots, std::ceil(static_cast<double>(model.experts) / how.n));
  use.expert_bytes =
      (slots * model.layers + setting.spare_slots) * model.ExpertBytes() / how.tp_experts +
      BufferBytes(model, batch);
  use.fits_attention =
      use.attention_bytes <= setting.memory_share * setting.attention.hardware.memory_bytes;
  use.fits_experts =
      use.expert_bytes <= setting.memory_share * setting.experts.hardware.memory_bytes;
  return use;
}

double KvTokensOfOne(const Setting& setting, const Configuration& how) {
  Configuration one = how;
  one.m = 1;
  Setting empty = setting;
  empty.context = 0;
  const MemoryUse use = MemoryOf(empty, one, kBufferRows);
  if (!use.fits_attention || !use.fits_experts) return 0;
  const double room = setting.memory_share * setting.attention.hardware.memory_bytes;
  return (room - use.attention_bytes) / setting.model.KvBytesPerToken(how.tp_attention);
}

}  // namespace janus::controllers
