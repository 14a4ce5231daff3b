#include "controllers/plan/whole_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "controllers/plan/largest_batch.h"
#include "controllers/plan/terms.h"

namespace janus::controllers {
namespace {

// Sequences of one copy that memory and the batch limit allow.
double MostSequences(const Setting& setting, const PlanSpace& space,
                     const WholeConfiguration& how) {
  const double limit = static_cast<double>(space.max_batch_per_attention) * how.gpus;
  return std::min(WholeRoom(setting, how), limit);
}

WholePlan Describe(const Setting& setting, const WholeConfiguration& how, double batch,
                   int copies) {
  WholePlan plan;
  plan.how = how;
  plan.copies = copies;
  plan.device = setting.attention.hardware.name;
  plan.gpus = copies * how.gpus;
  plan.batch = batch;
  plan.tpot_seconds = WholeTimePerOutputToken(setting, how, batch / copies);
  plan.tokens_per_second = batch / plan.tpot_seconds;
  plan.cost = plan.gpus * setting.attention.hardware.price;
  plan.bytes = WholeBytes(setting, how, batch / copies);
  return plan;
}

// Numbers of GPUs per stage to try: all up to a node, then whole nodes at growing distances.
std::vector<int> StageSizes(int most, int per_node) {
  std::vector<int> sizes;
  for (int gpus = 1; gpus <= std::min(most, 8); ++gpus) sizes.push_back(gpus);
  const int node = std::max(per_node, 8);
  for (int gpus = 16; gpus < node && gpus <= most; gpus += 8) sizes.push_back(gpus);
  for (int nodes = 1; nodes * node <= most; nodes *= 2) {
    if (nodes * node > sizes.back()) sizes.push_back(nodes * node);
    const int between = nodes * 3 / 2 * node;
    if (nodes > 1 && between <= most) sizes.push_back(between);
  }
  return sizes;
}

// Tensor-parallel degrees within a node that divide a stage; and the whole stage across nodes if it
// is a power of two.
std::vector<int> Widths(const Setting& setting, int stage) {
  constexpr int kMostAcrossNodes = 64;
  const int per_node = setting.attention.hardware.instances_per_node;
  std::vector<int> widths;
  for (int tp = 1; tp <= std::min(stage, kMostAcrossNodes); tp *= 2) {
    const bool is_inside = tp <= std::min(per_node, 8);
    if (stage % tp == 0 && (is_inside || tp == stage)) widths.push_back(tp);
  }
  return widths;
}

class WholeSearcher {
 public:
  WholeSearcher(const Setting& setting, const PlanGoal& goal, const PlanSpace& space)
      : setting_(setting), goal_(goal), space_(space) {}

  std::vector<WholePlan> Run(int most_gpus) {
    const int per_node = setting_.attention.hardware.instances_per_node;
    const int layers = setting_.model.layers + setting_.model.dense_layers;
    for (const int stage : StageSizes(most_gpus, per_node)) {
      const std::vector<int> widths = Widths(setting_, stage);
      for (int stages = 1; stage * stages <= most_gpus && stages <= std::min(layers, 16);
           stages *= 2) {
        for (const int tp_attention : widths) {
          if (setting_.model.heads < tp_attention) break;
          for (const int tp_experts : widths) {
            WholeConfiguration how = {stage * stages, stages, tp_attention, tp_experts, false};
            Try(how, most_gpus);
            const int nodes = NodesOf(stage, 1, per_node);
            if (tp_experts == 1 && nodes > 1 && (nodes & (nodes - 1)) == 0 && nodes <= 8) {
              how.tp_experts = nodes;
              how.splits_experts_across_nodes = true;
              Try(how, most_gpus);
            }
          }
        }
      }
    }
    std::vector<WholePlan> plans;
    for (std::optional<WholePlan>& plan : best_) {
      if (plan) plans.push_back(std::move(*plan));
    }
    std::ranges::stable_sort(
        plans, [&](const WholePlan& a, const WholePlan& b) { return IsBetter(goal_, a, b); });
    if (goal_.traffic.requests_per_second > 0) {
      for (WholePlan& plan : plans) {
        plan.first_token = FirstTokenOf(goal_, StepperOf(setting_, plan));
      }
    }
    for (size_t i = 1; i < plans.size(); ++i) plans[i].lost_by = WhyLost(goal_, plans[i], plans[0]);
    return plans;
  }

 private:
  void Try(const WholeConfiguration& how, int most_gpus) {
    std::optional<WholePlan>& best = best_[(how.tp_attention > 1 ? 1 : 0) |
                                           (how.tp_experts > 1 ? 2 : 0) | (how.stages > 1 ? 4 : 0)];
    if (best && CannotReach(how, *best)) return;
    std::optional<WholePlan> plan = EvaluateWhole(setting_, goal_, space_, how);
    if (!plan || plan->gpus > most_gpus) return;
    if (!space_.pins.whole.empty() && NameOf(how) != space_.pins.whole) return;
    if (best && goal_.HasLoad() && plan->cost > best->cost) return;  // more copies cost even more
    if (goal_.HasTraffic() && !TakeCopiesForFirstToken(*plan, most_gpus)) return;
    if (!best || IsBetter(goal_, *plan, *best)) best = std::move(plan);
  }

  // The fewest copies for which first tokens come in time. The copies share the traffic.
  bool TakeCopiesForFirstToken(WholePlan& plan, int most_gpus) const {
    const double of_one = plan.batch / plan.copies;
    const auto keeps = [&](int copies) {
      // Copies share a given batch; without one, each copy takes as many sequences as before.
      plan = Describe(setting_, plan.how, goal_.batch > 0 ? goal_.batch : of_one * copies, copies);
      return WhyMissed(goal_, FirstTokenOf(goal_, StepperOf(setting_, plan))).empty();
    };
    int enough = plan.copies;
    if (keeps(enough)) return true;
    int fails = enough;
    enough = most_gpus / plan.how.gpus;
    if (enough == fails || !keeps(enough)) return false;
    while (enough - fails > 1) {
      const int middle = (fails + enough) / 2;
      (keeps(middle) ? enough : fails) = middle;
    }
    return keeps(enough);
  }

  // An upper bound: without the latency target, it would take as many sequences as memory holds,
  // and tokens per second grow with them. A given batch needs at least as many copies as memory
  // requires.
  bool CannotReach(const WholeConfiguration& how, const WholePlan& best) const {
    const double most = MostSequences(setting_, space_, how);
    if (most < 1) return true;
    const double price = how.gpus * setting_.attention.hardware.price;
    if (goal_.HasLoad()) return std::max(std::ceil(goal_.batch / most), 1.0) * price > best.cost;
    return most / WholeTimePerOutputToken(setting_, how, most) / price <
           best.tokens_per_second / best.cost;
  }

  const Setting& setting_;
  const PlanGoal& goal_;
  const PlanSpace& space_;
  std::array<std::optional<WholePlan>, 8> best_;  // by kind
};

}  // namespace

Stepper StepperOf(const Setting& setting, const WholePlan& plan) {
  const double copies = plan.copies;
  return {[&setting, how = plan.how, copies](StepLoad load) {
            load.decode_rows /= copies;
            load.prompt_rows /= copies;
            return WholeStepSeconds(setting, how, load);
          },
          setting.context, plan.batch, copies * plan.how.DataParallel()};
}

std::optional<WholePlan> EvaluateWhole(const Setting& setting, const PlanGoal& goal,
                                       const PlanSpace& space, const WholeConfiguration& how) {
  const double most = MostSequences(setting, space, how);
  if (most < 1) return std::nullopt;
  const auto seconds = [&](double batch) { return WholeTimePerOutputToken(setting, how, batch); };
  if (goal.batch > 0) {
    const double fewest = std::ceil(goal.batch / most);
    if (seconds(goal.batch / fewest) <= goal.tpot_seconds) {
      return Describe(setting, how, goal.batch, static_cast<int>(fewest));
    }
  }
  const double largest = LargestBatch(most, goal.tpot_seconds, seconds);
  if (largest < 1) return std::nullopt;
  if (goal.batch == 0) return Describe(setting, how, largest, 1);
  return Describe(setting, how, goal.batch, static_cast<int>(std::ceil(goal.batch / largest)));
}

std::vector<WholePlan> SearchWholes(const Setting& setting, const PlanGoal& goal,
                                    const PlanSpace& space, int most_gpus) {
  return WholeSearcher(setting, goal, space).Run(most_gpus);
}

}  // namespace janus::controllers
