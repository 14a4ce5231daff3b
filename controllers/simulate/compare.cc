#include "controllers/simulate/compare.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "controllers/plan/whole_search.h"
#include "controllers/scaling/cheapest.h"
#include "controllers/simulate/separated_policies.h"
#include "controllers/simulate/steady.h"
#include "controllers/simulate/whole_policies.h"

namespace janus::controllers {
namespace {

Status CheckNames(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::ranges::find(kPolicyNames, name, &PolicyName::name) != kPolicyNames.end()) continue;
    std::string known;
    for (const PolicyName& policy : kPolicyNames) {
      known += (known.empty() ? "" : ", ") + std::string(policy.name);
    }
    return InvalidArgument("simulate: no policy '" + name + "'; known: " + known);
  }
  return OkStatus();
}

// Adds up to `most` distinct plans of `seen`, spread over their sizes, to `plans`, ascending.
void AddSome(std::vector<Wish> seen, int most, std::vector<Wish>& plans) {
  std::ranges::stable_sort(seen, {}, [](const Wish& wish) { return wish.Gpus(); });
  std::vector<Wish> distinct;
  for (const Wish& wish : seen) {
    if (std::ranges::find(distinct, wish) == distinct.end()) distinct.push_back(wish);
  }
  const size_t step = distinct.size() / static_cast<size_t>(std::max(most, 1)) + 1;
  for (size_t i = 0; i < distinct.size(); i += step) {
    if (std::ranges::find(plans, distinct[i]) == plans.end()) plans.push_back(distinct[i]);
  }
  std::ranges::stable_sort(plans, {}, [](const Wish& wish) { return wish.Gpus(); });
}

// Checks that the bounds allow any counts at all.
Status CheckBounds(const std::string& name, const Predictor& predictor,
                   const ScalingPolicy& scaling) {
  const CountBounds bounds = BoundsOf(predictor, scaling);
  if (LargestAllowed(bounds, predictor)) return OkStatus();
  return InvalidArgument("simulate: '" + name +
                         "' has no allowed counts: " + predictor.setting().model.name +
                         " needs at least " + std::to_string(predictor.FewestExperts()) +
                         " expert instances, and no number of whole pods fits the allowed counts, "
                         "the limit on GPUs and the ratio; allow more");
}

class Comparer {
 public:
  Comparer(std::span<const SimulatedRequest> requests, const Comparison& comparison)
      : requests_(requests), asked_(comparison), belief_(comparison.belief) {
    const Demand mean = DemandOf(requests, requests.back().arrival + 1);
    belief_.context = mean.context;
    Setting truth = comparison.truth;
    truth.context = mean.context;
    options_.scaling = comparison.scaling;
    options_.level = {comparison.scaling.tpot.seconds,
                      comparison.scaling.ttft ? comparison.scaling.ttft->seconds : 0};
    options_.machinery = comparison.machinery;
    options_.window_s = comparison.window_s;
    options_.should_stop = comparison.should_stop;
    const double prompt_keys = MeanPromptKeys(requests);
    believed_.emplace(belief_, options_.machinery, comparison.scaling, prompt_keys);
    real_.emplace(std::move(truth), options_.machinery, comparison.scaling, prompt_keys);
    demands_ = DemandByWindow(requests, RecentArrivals::kLongest_s);
  }

  // Prepares what the requested policies need.
  Status Prepare() {
    JANUS_RETURN_IF_ERROR(Validate(asked_.scaling));
    JANUS_RETURN_IF_ERROR(CheckRowsForOne());
    JANUS_ASSIGN_OR_RETURN(predictor_, MakePredictor(belief_, false));
    JANUS_RETURN_IF_ERROR(CheckBounds("ours", *predictor_, asked_.scaling));
    JANUS_RETURN_IF_ERROR(CheckFirst());
    if (IsWanted("disagg")) {
      JANUS_ASSIGN_OR_RETURN(random_, MakePredictor(belief_, true));
      by_node_ = asked_.scaling;
      by_node_.attention.instances_per_pod = by_node_.experts.instances_per_pod = asked_.node;
      JANUS_RETURN_IF_ERROR(CheckBounds("disagg", *random_, by_node_));
    }
    whole_.book = &*believed_;
    whole_.tpot_seconds = asked_.scaling.tpot.seconds;
    whole_.aim = asked_.scaling.aim;
    whole_.interval_s = asked_.scaling.interval_seconds;
    // All policies over copies have the same number of GPUs.
    whole_.pool = asked_.scaling.attention.max + asked_.scaling.experts.max;
    for (const PolicyName& policy : kPolicyNames) {
      const std::string name(policy.name);
      if (!IsWanted(name) || !RunsCopies(name)) continue;
      const auto how = CheapestWhole(whole_, demands_, Wholes());
      if (how) {
        whole_.how = *how;
        JANUS_ASSIGN_OR_RETURN(copies_, Predictor::CreateWhole(belief_, *how, Reserve()));
        break;
      }
      return FailedPrecondition("simulate: no whole-model instance of an allowed size holds " +
                                belief_.model.name + " and keeps " +
                                "the TPOT target; raise the target, or leave '" + name + "' out");
    }
    return OkStatus();
  }

  bool IsWanted(std::string_view name) const {
    if (asked_.policies.empty()) return asked_.machinery.rows_for_one == 1 || !RunsCopies(name);
    return std::ranges::find(asked_.policies, name) != asked_.policies.end();
  }

  Result<SimulationRun> Run(std::string_view name, const ProgressFunction& progress) {
    JANUS_ASSIGN_OR_RETURN(SimulationRun run, RunAt(name, 1, progress));
    const double wanted = asked_.scaling.tpot.percentile;
    if (asked_.tightens_peers && IsPeersRule(name)) {
      for (const double strictness : {0.85, 0.7, 0.55, 0.4, 0.25, 0.15}) {
        if (run.totals.Attainment() >= wanted) break;
        JANUS_ASSIGN_OR_RETURN(SimulationRun stricter, RunAt(name, strictness, progress));
        if (stricter.totals.Attainment() > run.totals.Attainment()) run = std::move(stricter);
      }
    }
    if (name == "ours") {
      attained_ = run.totals.Attainment();
      ours_ = run;
    }
    return run;
  }

  // The oracle knows the true times, and may also use plans that ours chose.
  Result<SimulationRun> RunOracle(const ProgressFunction& progress) {
    OracleOptions oracle = asked_.oracle;
    if (oracle.attainment <= 0) oracle.attainment = attained_;
    JANUS_ASSIGN_OR_RETURN(const Predictor knowing, MakePredictor(real_->setting(), false));
    std::vector<Wish> plans =
        PlansForLevels(knowing, asked_.scaling, requests_, options_.window_s, asked_.oracle_levels);
    if (ours_) AddSome(ours_->wishes, asked_.oracle_levels, plans);
    JANUS_ASSIGN_OR_RETURN(SimulationRun run,
                           SimulateOracle(requests_, &*real_, plans, options_, oracle, progress));
    run.searched_gpu_hours = run.totals.gpu_hours;
    // Our run is a schedule, too. The oracle's grid of intervals may be too coarse to find it.
    if (ours_ && ours_->totals.Attainment() >= oracle.attainment &&
        ours_->totals.gpu_hours < run.searched_gpu_hours) {
      const double searched = run.searched_gpu_hours;
      char why[80];
      std::snprintf(why, sizeof(why), "the schedule of ours; the search found only %.1f GPU-hours",
                    searched);
      run = *ours_;
      run.policy = "oracle";
      run.searched_gpu_hours = searched;
      for (DecisionRecord& decision : run.decisions) decision.why = why;
      run.holds.clear();
    }
    return run;
  }

 private:
  Result<Predictor> MakePredictor(const Setting& setting, bool is_random) const {
    PredictorOptions options = asked_.predictor;
    options.rows_for_one = asked_.machinery.rows_for_one;
    options.is_random = is_random;
    options.growth_reserve = Reserve();
    return Predictor::Create(setting, options);
  }

  Status CheckRowsForOne() const {
    if (asked_.machinery.rows_for_one == 1) return OkStatus();
    for (const PolicyName& policy : kPolicyNames) {
      if (!IsWanted(policy.name) || !RunsCopies(policy.name)) continue;
      return InvalidArgument(
          "simulate: on timed devices only attention and experts apart are "
          "simulated, and '" +
          std::string(policy.name) +
          "' runs copies of the whole model; leave it out, or multiply the "
          "requests instead (--scale)");
    }
    return OkStatus();
  }

  Status CheckFirst() const {
    if (!asked_.first) return OkStatus();
    const CountBounds bounds = BoundsOf(*predictor_, asked_.scaling);
    if (asked_.first->m >= bounds.min_m && asked_.first->m <= bounds.max_m &&
        asked_.first->n >= bounds.min_n && asked_.first->n <= bounds.max_n) {
      return OkStatus();
    }
    return InvalidArgument("simulate: the first counts must be " + std::to_string(bounds.min_m) +
                           "A" + std::to_string(bounds.min_n) + "E to " +
                           std::to_string(bounds.max_m) + "A" + std::to_string(bounds.max_n) +
                           "E: what holds the model and is allowed");
  }

  // Every policy knows the room that admission keeps.
  double Reserve() const { return asked_.machinery.growth_reserve_percent / 100.0; }

  static bool RunsCopies(std::string_view name) { return name == "whole" || IsPeersRule(name); }

  static bool IsPeersRule(std::string_view name) {
    return name == "ceil" || name == "hpa" || name == "wva" || name == "dynamo" || name == "sglang";
  }

  Result<SimulationRun> RunAt(std::string_view name, double strictness,
                              const ProgressFunction& progress) {
    whole_.strictness = strictness;
    const std::unique_ptr<SimulatedPolicy> policy = Make(name);
    whole_.strictness = 1;
    JANUS_ASSIGN_OR_RETURN(SimulationRun run,
                           Simulate(requests_, &*real_, policy.get(), options_, progress));
    run.strictness = strictness;
    return run;
  }

  // The ways in which copies may run.
  std::vector<WholeConfiguration> Wholes() const {
    if (!asked_.wholes.empty()) return asked_.wholes;
    constexpr int kMost = 64;
    std::vector<WholeConfiguration> ways = {{8}, {16}, {32}, {kMost}};
    const Demand mean = DemandOf(requests_, requests_.back().arrival + 1);
    PlanGoal goal;
    goal.tpot_seconds = asked_.scaling.aim * asked_.scaling.tpot.seconds;
    goal.batch = std::max(mean.output_tokens_per_second * goal.tpot_seconds, 1.0);
    PlanSpace space;
    space.max_batch_per_attention = asked_.scaling.max_batch_per_attention;
    for (const WholePlan& plan : SearchWholes(belief_, goal, space, whole_.pool)) {
      if (plan.how.gpus <= kMost) ways.push_back(plan.how);
    }
    return ways;
  }

  std::unique_ptr<SimulatedPolicy> Make(std::string_view name) const {
    if (name == "ours") {
      return MakeDecided("ours", &*predictor_, asked_.scaling, asked_.first);
    }
    if (name == "disagg") return MakeDecided("disagg", &*random_, by_node_);
    if (name == "sglang") return MakeWholeSizes(whole_, asked_.sizes);
    if (name == "whole") return MakeDecided("whole", &*copies_, asked_.scaling);
    if (name == "ceil") return MakeWholeByDemand(whole_);
    if (name == "hpa") return MakeHpa(whole_);
    if (name == "wva") return MakeSaturation(whole_);
    if (name == "dynamo") return MakeFloorAndStep(whole_);
    return MakeFixed("static",
                     CheapestForBusiest(*predictor_, asked_.scaling, demands_, asked_.scaling.aim));
  }

  const std::span<const SimulatedRequest> requests_;
  const Comparison& asked_;
  Setting belief_;
  SimulationOptions options_;
  std::optional<ShapeBook> believed_;
  std::optional<ShapeBook> real_;
  std::optional<Predictor> predictor_;
  std::optional<Predictor> random_;
  std::optional<Predictor> copies_;
  ScalingPolicy by_node_;
  WholeInputs whole_;
  std::vector<Demand> demands_;  // one for every five minutes
  std::optional<SimulationRun> ours_;
  double attained_ = 0.99;
};

}  // namespace

Result<std::vector<SimulationRun>> Compare(
    std::span<const SimulatedRequest> requests, const Comparison& comparison,
    const std::function<void(std::string_view policy, double share)>& progress) {
  if (requests.empty()) return InvalidArgument("simulate: there are no requests");
  JANUS_RETURN_IF_ERROR(CheckNames(comparison.policies));
  Comparer comparer(requests, comparison);
  JANUS_RETURN_IF_ERROR(comparer.Prepare());
  std::vector<SimulationRun> runs;
  for (const PolicyName& policy : kPolicyNames) {
    if (!comparer.IsWanted(policy.name)) continue;
    const ProgressFunction report = [&](double share) {
      if (progress) progress(policy.name, share);
    };
    Result<SimulationRun> run =
        policy.name == "oracle" ? comparer.RunOracle(report) : comparer.Run(policy.name, report);
    JANUS_RETURN_IF_ERROR(run.status());
    runs.push_back(std::move(run).value());
  }
  return runs;
}

}  // namespace janus::controllers
