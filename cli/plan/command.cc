#include "cli/plan/command.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/plan/calibration.h"
#include "controllers/plan/search.h"

namespace janus::cli {
namespace {

using controllers::PlanAnswer;
using controllers::Setting;
using FoundPlan = controllers::Plan;

// With the shared experts where they are in its stage.
double AttentionOf(const FoundPlan& plan) {
  return plan.times.attention + (plan.how.micro_batches > 1 ? plan.times.shared : 0);
}

std::string NameOf(const controllers::Configuration& how) {
  return std::to_string(how.m) + "A" + std::to_string(how.n) + "E";
}

std::string ExchangeOf(const controllers::Configuration& how) {
  return std::string(ToString(how.mode)) +
         (how.gate == GateSide::kAttention ? ", gate on attention" : "");
}

// The model on one kind of GPU without separating its modules, best first.
std::string RenderWholes(const PlanAnswer& answer) {
  if (answer.wholes.empty()) {
    return "\nnot separated, the model keeps the target on no number of these GPUs\n";
  }
  std::string text;
  char line[320];
  std::snprintf(line, sizeof(line), "\n%-22s %-6s %4s %8s %8s %10s %10s  %s\n", "NOT SEPARATED",
                "DEVICE", "GPUS", "BATCH", "TPOT ms", "TOKENS/S", "PER COST", "WHY NOT");
  text += line;
  for (const controllers::WholePlan& plan : answer.wholes) {
    const std::string copies = plan.copies > 1 ? " x" + std::to_string(plan.copies) : "";
    std::snprintf(line, sizeof(line), "%-22s %-6s %4d %8.0f %8.1f %10.0f %10.1f  %s\n",
                  (NameOf(plan.how) + copies).c_str(), plan.device.c_str(), plan.gpus, plan.batch,
                  plan.tpot_seconds * 1e3, plan.tokens_per_second,
                  plan.tokens_per_second / plan.cost, plan.lost_by.c_str());
    text += line;
  }
  if (!answer.is_separation_worthwhile) {
    text += "ADVICE: do not separate attention and experts for this load\n";
  }
  return text;
}

std::string RenderText(const PlanOptions& options, const Setting& setting,
                       const PlanAnswer& answer) {
  std::string text;
  char line[320];
  std::snprintf(line, sizeof(line),
                "%s, attention on %s, experts on %s, TPOT %.4g ms, context %.0f, %s\n\n",
                setting.model.name.c_str(), setting.attention.hardware.name.c_str(),
                setting.experts.hardware.name.c_str(), options.tpot_milliseconds, options.context,
                setting.activation.points.empty() ? "uniform routing" : "measured routing");
  text += line;
  std::snprintf(line, sizeof(line), "%-9s %5s %2s %-26s %7s %8s %10s %10s  %s\n", "PLAN", "TP", "B",
                "EXCHANGE", "BATCH", "TPOT ms", "TOKENS/S", "PER COST", "WHY NOT");
  text += line;
  for (const FoundPlan& plan : answer.plans) {
    const std::string tp =
        std::to_string(plan.how.tp_attention) + "," + std::to_string(plan.how.tp_experts);
    std::snprintf(line, sizeof(line), "%-9s %5s %2d %-26s %7.0f %8.1f %10.0f %10.1f  %s\n",
                  NameOf(plan.how).c_str(), tp.c_str(), plan.how.micro_batches,
                  ExchangeOf(plan.how).c_str(), plan.batch, plan.tpot_seconds * 1e3,
                  plan.tokens_per_second, plan.tokens_per_second / plan.cost, plan.lost_by.c_str());
    text += line;
  }
  const FoundPlan& best = answer.plans[0];
  std::snprintf(
      line, sizeof(line),
      "\n%s, one layer of a micro-batch: attention %.0f us, rows out %.0f us, experts %.0f "
      "us (%.1f activated on the busiest), contributions back %.0f us\n"
      "a GPU holds %.1f GB (attention), %.1f GB (experts)\n",
      NameOf(best.how).c_str(), AttentionOf(best) * 1e6, best.times.out * 1e6,
      best.times.experts * 1e6, best.times.activated_busiest, best.times.back * 1e6,
      best.memory.attention_bytes / 1e9, best.memory.expert_bytes / 1e9);
  text += line;
  return text + RenderWholes(answer);
}

std::string RenderJson(const Setting& setting, const PlanAnswer& answer) {
  nlohmann::ordered_json root;
  root["model"] = setting.model.name;
  root["attentionHardware"] = setting.attention.hardware.name;
  root["expertHardware"] = setting.experts.hardware.name;
  root["separate"] = answer.is_separation_worthwhile;
  root["tried"] = answer.tried;
  for (const FoundPlan& plan : answer.plans) {
    nlohmann::ordered_json one;
    one["attentionInstances"] = plan.how.m;
    one["expertInstances"] = plan.how.n;
    one["attentionTensorParallel"] = plan.how.tp_attention;
    one["expertTensorParallel"] = plan.how.tp_experts;
    one["microBatches"] = plan.how.micro_batches;
    one["exchangeMode"] = ToString(plan.how.mode);
    one["gate"] = plan.how.gate == GateSide::kAttention ? "Attention" : "Experts";
    one["batch"] = plan.batch;
    one["tpotMicroseconds"] = plan.tpot_seconds * 1e6;
    one["tokensPerSecond"] = plan.tokens_per_second;
    one["gpus"] = plan.gpus;
    one["cost"] = plan.cost;
    one["layerMicroseconds"] = {{"attention", AttentionOf(plan) * 1e6},
                                {"out", plan.times.out * 1e6},
                                {"experts", plan.times.experts * 1e6},
                                {"back", plan.times.back * 1e6}};
    if (!plan.lost_by.empty()) one["lostBy"] = plan.lost_by;
    root["plans"].push_back(std::move(one));
  }
  for (const controllers::WholePlan& plan : answer.wholes) {
    nlohmann::ordered_json one;
    one["strategy"] = NameOf(plan.how);
    one["device"] = plan.device;
    one["copies"] = plan.copies;
    one["gpus"] = plan.gpus;
    one["batch"] = plan.batch;
    one["tpotMicroseconds"] = plan.tpot_seconds * 1e6;
    one["tokensPerSecond"] = plan.tokens_per_second;
    one["cost"] = plan.cost;
    if (!plan.lost_by.empty()) one["lostBy"] = plan.lost_by;
    root["notSeparated"].push_back(std::move(one));
  }
  return root.dump(1) + "\n";
}

}  // namespace

Result<std::string> Plan(const PlanOptions& options) {
  if (!options.check_calibration.empty()) {
    JANUS_ASSIGN_OR_RETURN(const std::vector<CalibrationLine> lines,
                           CheckCalibration(options.check_calibration));
    return RenderCalibration(lines);
  }
  if (options.setting.model.empty()) {
    return InvalidArgument(
        "plan: want --model (a preset or a checkpoint's folder), or "
        "--check-calibration");
  }
  JANUS_ASSIGN_OR_RETURN(Setting setting, ReadSetting(options.setting));
  setting.context = options.context;
  controllers::PlanSpace space;
  space.max_attention_gpus = options.max_attention_gpus;
  space.max_expert_gpus = options.max_expert_gpus;
  space.is_survivable = options.survivable;
  space.instances_per_pod = options.instances_per_pod;
  JANUS_ASSIGN_OR_RETURN(
      const PlanAnswer answer,
      SearchPlans(setting, {options.tpot_milliseconds / 1e3, options.batch}, space));
  return options.json ? RenderJson(setting, answer) : RenderText(options, setting, answer);
}

}  // namespace janus::cli
