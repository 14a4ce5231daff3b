#include "controllers/plan/why_none.h"

#include <algorithm>
#include <cmath>

#include "common/format.h"

namespace janus::controllers {
namespace {

// The largest tensor-parallel degree that is tried on `gpus` GPUs.
int WidestOn(int gpus, int max_tensor_parallel) {
  int widest = 1;
  while (widest * 2 <= std::min(gpus, max_tensor_parallel)) widest *= 2;
  return widest;
}

// The fewest GPUs of both modules together that have enough memory; 0: there is no such number in
// the space.
int FewestThatHold(const Setting& setting, const PlanSpace& space, double rows) {
  const auto fewest = [&](int gpus, int most_wide, auto&& holds) {
    int least = 0;
    for (int tp = 1; tp <= WidestOn(gpus, most_wide); tp *= 2) {
      for (int count = 1; count * tp <= gpus && (least == 0 || count * tp < least); ++count) {
        if (holds(count, tp)) least = count * tp;
      }
    }
    return least;
  };
  Configuration how;
  const int attention_wide = setting.model.IsLatent() ? 1 : space.max_tensor_parallel;
  const int experts = fewest(space.max_expert_gpus, space.max_tensor_parallel, [&](int n, int tp) {
    how.n = n;
    how.tp_experts = tp;
    return MemoryOf(setting, how, rows).fits_experts;
  });
  const int attention = fewest(space.max_attention_gpus, attention_wide, [&](int m, int tp) {
    how.m = m;
    how.tp_attention = tp;
    return MemoryOf(setting, how, rows).fits_attention;
  });
  return experts > 0 && attention > 0 ? experts + attention : 0;
}

// Describes the whole model if it keeps the goal.
std::string OfWhole(const std::vector<WholePlan>& wholes) {
  if (wholes.empty()) return "";
  const WholePlan& whole = wholes[0];
  return "; not separated, " + NameOf(whole.how) + " on " + std::to_string(whole.gpus) + " " +
         whole.device +
         Format(" keeps it at %.4g ms (batch %.0f)", whole.tpot_seconds * 1e3, whole.batch);
}

Status TooLarge(const Setting& setting, const char* role, double bytes,
                const HardwareProfile& device, int gpus) {
  return InvalidArgument(
      "plan: " + setting.model.name + " does not fit: each GPU for " + role + " would hold " +
      Format("%.1f GB of the %.1f GB", bytes / 1e9,
             setting.memory_share * device.memory_bytes / 1e9) +
      " that a plan may use of " + device.name + ", even with all " + std::to_string(gpus) +
      " GPUs; allow more GPUs, a device with more memory, or a smaller batch");
}

}  // namespace

Status WhyNoPlan(const Setting& setting, const PlanGoal& goal, const PlanSpace& space,
                 const std::vector<WholePlan>& wholes) {
  if (setting.model.IsLatent() && space.pins.tp_attention.value_or(1) > 1) {
    return InvalidArgument("plan: " + setting.model.name +
                           " keeps latent keys, and plans do not split those over GPUs; attention "
                           "instances of one GPU only (--attention-tp 1) can be planned");
  }
  const double rows = std::max(goal.batch, 1.0);
  Configuration how;
  how.tp_attention =
      setting.model.IsLatent() ? 1 : WidestOn(space.max_attention_gpus, space.max_tensor_parallel);
  how.tp_experts = WidestOn(space.max_expert_gpus, space.max_tensor_parallel);
  how.m = std::max(space.max_attention_gpus / how.tp_attention, 1);
  how.n = std::max(space.max_expert_gpus / how.tp_experts, 1);
  const MemoryUse use = MemoryOf(setting, how, rows);
  if (!use.fits_experts) {
    return TooLarge(setting, "experts", use.expert_bytes, setting.experts.hardware,
                    space.max_expert_gpus);
  }
  if (!use.fits_attention) {
    return TooLarge(setting, "attention", use.attention_bytes, setting.attention.hardware,
                    space.max_attention_gpus);
  }
  if (goal.batch == 0 && goal.HasTraffic()) {
    const double tokens = goal.traffic.requests_per_second * goal.traffic.output_tokens;
    const double prompts = goal.traffic.requests_per_second * goal.traffic.prompt_tokens;
    return FailedPrecondition(
        "plan: no plan within " + std::to_string(space.max_attention_gpus) + " + " +
        std::to_string(space.max_expert_gpus) + " GPUs and " + std::to_string(space.max_pools) +
        " pools carries " +
        Format("%.0f tokens/s and %.0f prompt tokens/s at a TPOT of %.4g ms", tokens, prompts,
               goal.tpot_seconds * 1e3) +
        OfWhole(wholes) + "; raise the target, or allow more GPUs, pools or ways to exchange rows");
  }
  const int fewest = FewestThatHold(setting, space, rows);
  if (space.max_gpus > 0 && fewest > space.max_gpus) {
    return InvalidArgument(
        "plan: " + setting.model.name + " does not fit " + std::to_string(space.max_gpus) +
        " GPUs: with attention and experts apart it needs at least " + std::to_string(fewest) +
        "; allow more GPUs or a device with more memory" + OfWhole(wholes));
  }
  const double most = static_cast<double>(space.max_attention_gpus) * space.max_batch_per_attention;
  if (goal.batch > most) {
    return InvalidArgument(
        "plan: a batch of " +
        Format("%.0f is more than the %.0f sequences that", goal.batch, most) +
        " all attention GPUs together may take; allow more GPUs or more sequences on each");
  }
  const int granule = space.fills_pods ? space.instances_per_pod : 1;
  if (granule > std::min(space.max_attention_gpus, space.max_expert_gpus)) {
    return InvalidArgument(
        "plan: a pod of " + std::to_string(granule) +
        " instances needs more GPUs than attention or experts may use; make pods smaller");
  }
  Configuration widest;
  widest.n = space.max_expert_gpus;
  if (space.is_survivable && !IsSurvivable(setting, space, widest)) {
    return InvalidArgument("plan: with " + std::to_string(widest.n) +
                           " GPUs for experts, the loss of a pod leaves too few slots (a pod has " +
                           std::to_string(space.instances_per_pod) +
                           " instances); make pods smaller or allow more GPUs");
  }
  double fastest = HUGE_VAL;
  for (how.tp_experts = 1; how.tp_experts <= space.max_tensor_parallel; how.tp_experts *= 2) {
    how.n = space.max_expert_gpus / how.tp_experts;
    if (how.n < 1 || !MemoryOf(setting, how, rows).fits_experts) continue;
    fastest = std::min(fastest, TimePerOutputToken(setting, how, rows));
  }
  return FailedPrecondition(
      "plan: no plan keeps " +
      Format("a TPOT of %.4g ms; with every GPU allowed it is about %.4g ms",
             goal.tpot_seconds * 1e3, fastest * 1e3) +
      (space.max_gpus > 0 ? " (a plan may use " + std::to_string(space.max_gpus) + " of them)"
                          : "") +
      OfWhole(wholes) + "; raise the target, lower the batch, or allow more or faster GPUs");
}

Status WhyNoFirstToken(const PlanGoal& goal, const Plan& soonest,
                       const std::vector<WholePlan>& wholes) {
  const Configuration& how = soonest.how;
  const std::string nearest = NameOf(how) + ": " + WhyMissed(goal, *soonest.first_token);
  if (goal.ttft_seconds <= 0) {
    return FailedPrecondition("plan: no plan that was tried carries the traffic; the nearest is " +
                              nearest + OfWhole(wholes) +
                              "; raise the batch, or allow more or faster GPUs");
  }
  const std::string text =
      "plan: no plan that was tried has a first token within " +
      Format("%.4g s at p%.4g; the soonest is ", goal.ttft_seconds, goal.ttft_percentile * 100) +
      nearest;
  return FailedPrecondition(text + OfWhole(wholes) +
                            "; raise the target, or allow more or faster attention GPUs");
}

}  // namespace janus::controllers
