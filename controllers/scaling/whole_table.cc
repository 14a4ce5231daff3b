#include "controllers/scaling/whole_table.h"

#include <algorithm>
#include <cmath>

#include "controllers/plan/terms.h"

namespace janus::controllers {
namespace {

double Projections(const Setting& setting, int tp, double rows) {
  return AttentionSeconds(setting, tp, {0, 1, rows, 0});
}

double OverKeys(const Setting& setting, int tp, double rows, double keys) {
  return AttentionSeconds(setting, tp, {rows, keys, 0, 0}) - Projections(setting, tp, rows);
}

// A layer for which only prompt rows are known; these have no lower limit.
WholeLayerTimes OfRows(const Setting& setting, const WholeConfiguration& how, double rows) {
  return TimesOfWholeLayer(setting, how, {0, 1, std::max(rows, 1e-6), 0});
}

}  // namespace

WholeTable::WholeTable(const Setting& s, const WholeConfiguration& how)
    : how_(how),
      groups_(static_cast<double>(how.DataParallel()) * how.stages),
      layers_(s.model.layers),
      dense_layers_(s.model.dense_layers),
      busiest_(BusiestKeysFactor(s, how.DataParallel(), 1) - 1),
      prompt_key_seconds_(PromptKeySeconds(s, how.tp_attention)),
      projections_(16, kDoublings,
                   [&](double rows) { return Projections(s, how.tp_attention, rows); }),
      keys_per_row_(8, kDoublings,
                    [&](double keys) {
                      return OverKeys(s, how.tp_attention, 2, keys) -
                             OverKeys(s, how.tp_attention, 1, keys);
                    }),
      keys_fixed_(8, kDoublings,
                  [&](double keys) {
                    return 2 * OverKeys(s, how.tp_attention, 1, keys) -
                           OverKeys(s, how.tp_attention, 2, keys);
                  }),
      shared_(16, kDoublings,
              [&](double rows) { return SharedSeconds(s, how.tp_attention, rows); }),
      dense_(16, kDoublings,
             [&](double rows) {
               return s.model.dense_layers > 0 ? DenseFeedForwardSeconds(s, how.tp_attention, rows)
                                               : 0;
             }),
      head_(16, kDoublings,
            [&](double rows) { return OutputHeadSeconds(s, how.tp_attention, rows); }),
      experts_(16, kDoublings,
               [&](double rows) { return OfRows(s, how, rows * how.stages).experts; }),
      exchange_(
          16, kDoublings,
          [&](double rows) { return OfRows(s, how, rows * how.tp_attention * groups_).exchange; }),
      hops_(16, kDoublings, [&](double rows) {
        return (how.stages - 1) *
               HopSeconds(s.attention.dispatch, 1, rows * RowBytes(s.model) / how.tp_attention);
      }) {
  const double all = layers_ + dense_layers_;
  stretch_ = std::ceil(all / how.stages) * how.stages / all;
}

double WholeTable::Attention(double decode, double keys, double prompt, double prompt_keys) const {
  return projections_(decode + prompt) + decode * keys_per_row_(keys) + keys_fixed_(keys) +
         prompt * prompt_keys * prompt_key_seconds_;
}

StepTimes WholeTable::Step(const StepLoad& load, const Corrections& c) const {
  const bool decodes = load.decode_rows > 0 || load.prompt_rows == 0;
  const double of_one = std::max(load.decode_rows / groups_, 1.0);
  const double d = decodes ? of_one : 0;
  const double p = load.prompt_rows / groups_;
  const double keys = load.context * (1 + busiest_ / std::sqrt(of_one));
  const double attention = Attention(d, keys, p, load.prompt_keys);
  StepTimes times;
  times.attention = layers_ * (attention + shared_(d + p)) + head_(d) +
                    (dense_layers_ > 0 ? dense_layers_ * (attention + dense_(d + p)) : 0);
  times.experts = layers_ * experts_((load.decode_rows + load.prompt_rows) / how_.stages);
  times.exchange = layers_ * exchange_((d + p) / how_.tp_attention);
  times.attention *= c.attention;
  times.experts *= c.experts;
  times.exchange *= c.exchange;
  times.step = c.step * (stretch_ * (times.attention + times.experts + times.exchange) +
                         (how_.stages > 1 ? c.exchange * hops_(d + p) : 0));
  return times;
}

}  // namespace janus::controllers
