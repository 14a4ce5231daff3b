#include "controllers/simulate/shapes.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace janus::controllers {

ShapeBook::ShapeBook(Setting setting, const Machinery& machinery, const ScalingPolicy& scaling,
                     double prompt_keys)
    : setting_(std::move(setting)),
      machinery_(machinery),
      tpot_seconds_(scaling.tpot.seconds),
      most_running_of_one_(scaling.max_batch_per_attention),
      prompt_keys_(prompt_keys) {}

const UnitShape& ShapeBook::Separate(const Configuration& how) {
  const std::vector<int> key = {how.m,
                                how.n,
                                how.tp_attention,
                                how.tp_experts,
                                how.micro_batches,
                                static_cast<int>(how.mode),
                                static_cast<int>(how.gate),
                                static_cast<int>(how.sum),
                                static_cast<int>(how.wire),
                                how.is_random ? 1 : 0};
  const auto found = shapes_.find(key);
  if (found != shapes_.end()) return found->second;
  const auto model = [this, how](double rows, double context, double prompt_rows) {
    return TimesOf(how, {rows, context, prompt_rows, prompt_keys_}).step;
  };
  const double kv_tokens = how.m * KvTokensOfOne(setting_, how) / machinery_.rows_for_one;
  return shapes_.emplace(key, Shape(model, kv_tokens, how.m, how.m)).first->second;
}

StepTimes ShapeBook::TimesOf(const Configuration& how, StepLoad load) const {
  load.rows_for_one = machinery_.rows_for_one;
  return TimesOfStep(setting_, how, load);
}

const UnitShape& ShapeBook::Whole(const WholeConfiguration& how) {
  const std::vector<int> key = {how.gpus, how.stages, how.tp_attention, how.tp_experts,
                                how.splits_experts_across_nodes ? 1 : 0};
  const auto found = shapes_.find(key);
  if (found != shapes_.end()) return found->second;
  const auto model = [this, how](double rows, double context, double prompt_rows) {
    return WholeStepSeconds(setting_, how, {rows, context, prompt_rows, prompt_keys_});
  };
  return shapes_
      .emplace(key, Shape(model, WholeKvTokens(setting_, how), how.gpus, how.DataParallel()))
      .first->second;
}

int64_t ShapeBook::SetMostWaiting(int64_t requests) {
  for (auto& [key, shape] : shapes_) shape.most_waiting = requests;
  return std::exchange(machinery_.most_waiting, requests);
}

UnitShape ShapeBook::Shape(StepTable::Model model, double kv_tokens, int gpus,
                           int instances) const {
  constexpr double kMostRowsOfOne = 4096;
  UnitShape shape;
  shape.kv_tokens = static_cast<int64_t>(kv_tokens);
  shape.most_running = int64_t{most_running_of_one_} * gpus;
  shape.instances = instances;
  shape.most_waiting = machinery_.most_waiting;
  shape.growth_reserve_percent = machinery_.growth_reserve_percent;
  const double most = kMostRowsOfOne / machinery_.rows_for_one;
  const StepTable::Prompts prompts = {most * gpus, 1.0 * instances,
                                      machinery_.prompt_share * tpot_seconds_, kLeastPromptShare};
  shape.steps = std::make_shared<StepTable>(std::move(model), prompts);
  return shape;
}

}  // namespace janus::controllers
