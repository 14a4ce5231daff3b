#include "controllers/timed/timed_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "controllers/plan/performance.h"

namespace janus::controllers {
namespace {

Status CheckFactor(const char* name, int value, int most) {
  if (value >= 1 && value <= most) return OkStatus();
  return InvalidArgument(std::string(name) + " of the timed device is " + std::to_string(value) +
                         "; want 1 to " + std::to_string(most));
}

// Named experts that `tokens` token-slots activate of `experts` equal ones.
double Activated(double experts, double tokens) {
  return experts * (1 - std::pow(1 - 1 / experts, tokens));
}

std::string Gigabytes(double bytes) {
  return std::to_string(static_cast<int64_t>(std::ceil(bytes / 1e9))) + " GB";
}

}  // namespace

Result<TimedModel> TimedModel::Make(const TimedDevice& device, const ServedShape& served) {
  JANUS_RETURN_IF_ERROR(CheckFactor("scale", device.scale, kMostTimedScale));
  JANUS_RETURN_IF_ERROR(CheckFactor("timeScale", device.time_scale, kMostTimeScale));
  JANUS_ASSIGN_OR_RETURN(const HardwareProfile hardware, FindHardware(device.hardware));
  TimedModel out;
  JANUS_ASSIGN_OR_RETURN(out.setting_.model, FindModel(device.model));
  const ModelShape& named = out.setting_.model;
  if (served.moe_layers < 1 || served.experts < 1 || served.top_k < 1) {
    return InvalidArgument("a timed device needs a model with routed experts");
  }
  if (served.experts > named.experts) {
    return InvalidArgument("the served model has " + std::to_string(served.experts) +
                           " experts in a layer and " + named.name + " has " +
                           std::to_string(named.experts) +
                           "; a timed device needs a served model with no more");
  }
  JANUS_ASSIGN_OR_RETURN(out.setting_.attention, CostsOf(hardware, named.bytes_per_weight));
  out.setting_.experts = out.setting_.attention;
  out.device_ = {hardware.name, named.name, device.scale, device.time_scale};
  out.layers_for_one_ = static_cast<double>(named.layers) / served.moe_layers;
  out.experts_for_one_ = static_cast<double>(named.experts) / served.experts;
  out.chosen_ = static_cast<double>(served.top_k) / served.experts;
  out.slots_for_one_ = static_cast<double>(device.scale) * named.top_k / served.top_k;

  Configuration how;
  how.n = named.experts;  // one expert of a layer each: the fewest that any instance holds
  const double kv_tokens = KvTokensOfOne(out.setting_, how);
  if (kv_tokens < 1) {
    return InvalidArgument(named.name + " needs " + Gigabytes(named.AttentionBytes()) +
                           " of attention weights on each attention instance, and " +
                           hardware.name + " has " + Gigabytes(hardware.memory_bytes) +
                           " in all; name hardware with more memory");
  }
  out.kv_tokens_ = static_cast<int64_t>(kv_tokens / device.scale);
  const int named_slots = SlotsPerInstance(out.setting_, how);
  out.slots_ = static_cast<int>(named_slots / out.experts_for_one_ + 1e-9);
  if (out.slots_ < 1) {
    return InvalidArgument(
        "one " + hardware.name + " has room for " + std::to_string(named_slots) +
        " experts of each layer of " + named.name +
        ", and one expert of the served model, which has " + std::to_string(served.experts) +
        " in a layer, stands for " +
        std::to_string(static_cast<int>(std::ceil(out.experts_for_one_))) +
        "; name hardware with more memory or a smaller model, or serve a model with more experts");
  }
  return out;
}

AttentionRows TimedModel::Named(const AttentionRows& rows) const {
  AttentionRows named = rows;
  named.decode *= device_.scale;
  named.prompt *= device_.scale;
  return named;
}

double TimedModel::AttentionSeconds(const AttentionRows& rows) const {
  if (rows.all() <= 0) return 0;
  return layers_for_one_ * controllers::AttentionSeconds(setting_, 1, Named(rows)) /
         device_.time_scale;
}

double TimedModel::SharedSeconds(double rows) const {
  if (rows <= 0) return 0;
  return layers_for_one_ * controllers::SharedSeconds(setting_, 1, rows * device_.scale) /
         device_.time_scale;
}

ExpertShape TimedModel::NamedExpert() const {
  const ModelShape& named = setting_.model;
  return {named.hidden, named.intermediate, named.bytes_per_weight, 1};
}

double TimedModel::SpreadOf(double rows) const {
  const ModelShape& named = setting_.model;
  const double each_of_one = std::pow(1 - 1 / experts_for_one_, slots_for_one_);
  const double mapped =
      named.experts * (1 - std::pow(1 - chosen_ * (1 - each_of_one), std::max(rows, 1.0)));
  return ActivatedExperts({}, named, std::max(rows, 1.0) * device_.scale) / mapped;
}

double TimedModel::ExpertSeconds(std::span<const int> rows_of_held, double rows) const {
  const ExpertCost& cost = setting_.experts.experts;
  const ExpertShape shape = NamedExpert();
  double activated = 0;
  for (const int here : rows_of_held) {
    if (here > 0) activated += Activated(experts_for_one_, here * slots_for_one_);
  }
  if (activated == 0) return 0;
  const double resident = experts_for_one_ * static_cast<double>(rows_of_held.size());
  const double spread = std::min(SpreadOf(rows), resident / activated);
  double seconds =
      cost.fixed_seconds + cost.idle_expert_seconds * std::max(resident - spread * activated, 0.0);
  for (const int here : rows_of_held) {
    if (here <= 0) continue;
    const double tokens = here * slots_for_one_;
    const double experts = spread * Activated(experts_for_one_, tokens);
    seconds += experts * OneExpertSeconds(cost, shape, tokens / experts);
  }
  return layers_for_one_ * seconds / device_.time_scale;
}

double TimedModel::ExpertSeconds(ReplicaShares& shares, std::span<const int> rows_of_experts,
                                 double rows) const {
  const ExpertCost& cost = setting_.experts.experts;
  const ExpertShape shape = NamedExpert();
  const double spread = SpreadOf(rows);
  std::vector<double> activated;
  for (const int chosen : rows_of_experts) {
    activated.push_back(spread * Activated(experts_for_one_, chosen * slots_for_one_));
  }
  const std::span<const double> mine = shares.Of(activated);
  const double share = std::accumulate(mine.begin(), mine.end(), 0.0);
  if (share <= 0) return 0;
  constexpr double kWhole = 0.5;
  const double resident = experts_for_one_ * shares.held();
  const double here = std::min(share + kWhole, resident);
  double seconds = cost.fixed_seconds + cost.idle_expert_seconds * (resident - here);
  for (size_t expert = 0; expert < activated.size(); ++expert) {
    if (mine[expert] <= 0) continue;
    const double tokens = rows_of_experts[expert] * slots_for_one_;
    seconds += mine[expert] * here / share *
               OneExpertSeconds(cost, shape, tokens / activated[expert] * share / here);
  }
  return layers_for_one_ * seconds / device_.time_scale;
}

ExchangeTimes TimedModel::ExchangeSeconds(int m, int n, double rows) const {
  if (rows <= 0) return {};
  Configuration how;
  how.m = m;
  how.n = n;
  ExchangeTimes times = TimesOfExchange(setting_, how, rows * device_.scale);
  const double factor = layers_for_one_ / device_.time_scale;
  times.out *= factor;
  times.back *= factor;
  return times;
}

double TimedModel::DenseSeconds(const AttentionRows& rows) const {
  if (rows.all() <= 0) return 0;
  return DenseStepSeconds(setting_, 1, Named(rows)) / device_.time_scale;
}

}  // namespace janus::controllers
