#include "cli/plan/command.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/plan/calibration.h"
#include "cli/plan/traffic_file.h"
#include "common/format.h"
#include "controllers/plan/search.h"
#include "controllers/plan/terms.h"

namespace janus::cli {
namespace {

using controllers::PlanAnswer;
using controllers::Setting;
using FoundPlan = controllers::Plan;

// Includes the shared experts if they run in the attention stage.
double AttentionOf(const FoundPlan& plan) {
  return plan.times.attention + (plan.how.micro_batches > 1 ? plan.times.shared : 0);
}

std::string ExchangeOf(const controllers::Configuration& how) {
  return std::string(ToString(how.mode)) +
         (how.gate == GateSide::kAttention ? ", gate on attention" : "") +
         (how.sum == SumRule::kFixedPoint ? Format(", FixedPoint %d", how.sum_bits) : "") +
         (how.wire == controllers::WireFormat::kFp8 ? ", fp8" : "");
}

controllers::PlanSpace SpaceOf(const PlanOptions& options) {
  controllers::PlanSpace space;
  space.max_attention_gpus = options.max_attention_gpus;
  space.max_expert_gpus = options.max_expert_gpus;
  space.max_gpus = options.max_gpus;
  space.max_batch_per_attention = options.max_batch_per_attention;
  space.is_survivable = options.survivable;
  space.instances_per_pod = options.instances_per_pod;
  space.fills_pods = options.whole_pods;
  space.tries_fixed_point = options.fixed_point || options.all_modes;
  space.sum_bits = options.exchange.sum_bits;
  space.tries_fp8 = options.all_modes;
  space.is_served_only = options.served;
  space.max_pools = options.max_pools;
  space.pins = options.pins;
  return space;
}

// A first-token target can be judged only if the traffic is known.
bool IsFirstTokenJudged(const PlanOptions& options) {
  return options.ttft_seconds > 0 && options.traffic.requests_per_second > 0;
}

// The traffic from the options, or from the trace.
Result<controllers::Traffic> TrafficOf(const PlanOptions& options) {
  const controllers::Traffic& said = options.traffic;
  if (options.trace.empty()) {
    if (said.requests_per_second == 0 || (said.prompt_tokens > 0 && said.output_tokens > 0)) {
      return said;
    }
    return InvalidArgument(
        "plan: --requests-per-second needs the lengths of requests; give --prompt-tokens and "
        "--output-tokens, or --trace");
  }
  JANUS_ASSIGN_OR_RETURN(controllers::Traffic traffic, ReadTraffic(options.trace));
  if (said.requests_per_second > 0) traffic.requests_per_second = said.requests_per_second;
  return traffic;
}

// How much --survivable and --whole-pods add to the cost of a token or of the batch.
struct Price {
  std::string of;    // which of the two flags
  double share = 0;  // 0.1: a tenth dearer
  std::string than;  // the best plan without the flag
};

std::optional<Price> PriceOf(const PlanOptions& options, const Setting& setting,
                             const controllers::PlanGoal& goal, const FoundPlan& chosen) {
  if (!options.survivable && !options.whole_pods) return std::nullopt;
  controllers::PlanSpace free = SpaceOf(options);
  free.is_survivable = free.fills_pods = false;
  free.max_pools = std::max(free.max_pools, chosen.how.pools);
  const Result<PlanAnswer> answer = SearchPlans(setting, goal, free);
  if (!answer.ok()) return std::nullopt;
  const FoundPlan& best = answer->plans[0];
  const double times = goal.batch > 0 ? chosen.cost / best.cost
                                      : best.tokens_per_second / best.cost /
                                            (chosen.tokens_per_second / chosen.cost);
  std::string of = options.survivable ? "survivable" : "";
  if (options.whole_pods) of += options.survivable ? " and in whole pods" : "whole pods";
  return Price{of, times - 1, NameOf(best.how)};
}

// The best plan for the whole model by MixServe's equations, beside ours.
struct Comparison {
  controllers::MixServeTimes theirs;
  double exchange = 0;  // our exchange time of a layer, in seconds
};

Comparison CompareWithMixServe(const Setting& setting, const controllers::WholePlan& whole,
                               const controllers::Traffic& traffic) {
  const Setting on = controllers::OnDeviceOf(setting, whole);
  const double batch = whole.batch / whole.copies;
  controllers::Traffic each = traffic;
  each.requests_per_second /= whole.copies;
  return {MixServeTimesOf(on, whole.how, batch, each),
          TimesOfWholeLayer(on, whole.how, {batch, setting.context, 0, 0}).exchange};
}

std::string RenderFirstTokenOf(const std::string& name, const controllers::FirstToken& token,
                               double percentile) {
  char line[320];
  if (!token.why_not.empty()) {
    std::snprintf(line, sizeof(line), "%-22s no first token at p%.4g: ", name.c_str(),
                  percentile * 100);
    return line + token.why_not + "\n";
  }
  std::snprintf(line, sizeof(line),
                "%-22s first token p%.4g %.3g s; %.0f sequences decode at %.1f ms; a step has room "
                "for %.0f prompt rows\n",
                name.c_str(), percentile * 100, token.seconds, token.decoding,
                token.tpot_seconds * 1e3, token.prompt_rows);
  return line;
}

// Times to the first token at the given traffic, beside those of MixServe's formulas.
std::string RenderFirstTokens(const Setting& setting, const controllers::PlanGoal& goal,
                              const PlanAnswer& answer) {
  const controllers::Traffic& traffic = goal.traffic;
  if (traffic.requests_per_second <= 0) return "";
  std::string text;
  char line[320];
  std::snprintf(line, sizeof(line),
                "\n%.4g requests/s of %.0f + %.0f tokens (prompt lengths %s), steps of %.4g ms\n",
                traffic.requests_per_second, traffic.prompt_tokens, traffic.output_tokens,
                traffic.prompt_law.empty() ? "exponential with this mean" : "as measured",
                goal.tpot_seconds * 1e3);
  text += line;
  if (goal.ttft_seconds > 0) {
    std::snprintf(line, sizeof(line), "target for the first token: %.4g s at p%.4g\n",
                  goal.ttft_seconds, goal.ttft_percentile * 100);
    text += line;
  }
  for (const FoundPlan& plan : answer.plans) {
    if (&plan != answer.plans.data() && !plan.is_ruled_out) continue;
    text += RenderFirstTokenOf(NameOf(plan.how), *plan.first_token, goal.ttft_percentile);
  }
  if (answer.wholes.empty()) return text;
  const controllers::WholePlan& whole = answer.wholes[0];
  text += RenderFirstTokenOf(NameOf(whole.how), *whole.first_token, goal.ttft_percentile);
  const Comparison beside = CompareWithMixServe(setting, whole, traffic);
  std::snprintf(line, sizeof(line),
                "%s by MixServe's eq. 5-11: communication %.0f us a layer (ours %.0f us), ITL %.1f "
                "ms (ours %.1f ms), %.0f tokens/s with prompts, ",
                NameOf(whole.how).c_str(), beside.theirs.communication * 1e6, beside.exchange * 1e6,
                beside.theirs.inter_token * 1e3, whole.tpot_seconds * 1e3,
                beside.theirs.tokens_per_second * whole.copies);
  text += line;
  if (!std::isfinite(beside.theirs.wait)) {
    return text + "no first token, because its queue grows without limit\n";
  }
  std::snprintf(line, sizeof(line), "wait %.3g s, mean first token %.3g s\n", beside.theirs.wait,
                beside.theirs.first_token);
  return text + line;
}

// How many micro-batches, and why. Each one reads the experts' weights again.
std::string RenderMicroBatches(const Setting& setting, const FoundPlan& best) {
  if (best.how.micro_batches == 1) {
    return "one micro-batch: each further one would read the experts again. That takes longer than "
           "attention and exchange can hide\n";
  }
  FoundPlan one = best;
  one.how.micro_batches = 1;
  const double batch = best.batch / best.how.pools;
  const controllers::LayerTimes layer = TimesOfLayer(setting, one.how, batch);
  return Format(
      "%d micro-batches: a layer takes %.0f us. One micro-batch would take %.0f us, because its "
      "parts cannot overlap; it would read the experts once (%.0f us), not %d times (%.0f us)\n",
      best.how.micro_batches, best.times.layer * 1e6, layer.layer * 1e6, layer.experts * 1e6,
      best.how.micro_batches, best.how.micro_batches * best.times.experts * 1e6);
}

// Plans that keep the modules together on one kind of GPU, best first.
std::string RenderWholes(const PlanAnswer& answer) {
  if (answer.wholes.empty()) {
    return "\nnot separated: no number of these GPUs keeps the target\n";
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
                       const controllers::PlanGoal& goal, const PlanAnswer& answer) {
  std::string text;
  char line[320];
  std::snprintf(line, sizeof(line),
                "%s, attention on %s, experts on %s, TPOT %.4g ms, context %.0f, %s\n\n",
                setting.model.name.c_str(), setting.attention.hardware.name.c_str(),
                setting.experts.hardware.name.c_str(), options.tpot_milliseconds, options.context,
                setting.activation.points.empty() ? "uniform routing" : "measured routing");
  text += line;
  std::snprintf(line, sizeof(line), "%-12s %5s %2s %-26s %5s %7s %8s %10s %9s %10s  %s\n", "PLAN",
                "TP", "B", "EXCHANGE", "GPUS", "BATCH", "TPOT ms", "TOKENS/S", "COST", "PER COST",
                "WHY NOT");
  text += line;
  std::string unserved;  // why, each reason once
  for (const FoundPlan& plan : answer.plans) {
    const std::string tp =
        std::to_string(plan.how.tp_attention) + "," + std::to_string(plan.how.tp_experts);
    const std::vector<std::string> why_not = WhyNotServed(setting, plan.how);
    const bool is_served = why_not.empty();
    for (const std::string& why : why_not) {
      if (unserved.find(why) == std::string::npos) unserved += (unserved.empty() ? "" : ", ") + why;
    }
    std::snprintf(line, sizeof(line),
                  "%-12s %5s %2d %-26s %5d %7.0f %8.1f %10.0f %9.1f %10.1f  %s\n",
                  (NameOf(plan.how) + (is_served ? "" : " *")).c_str(), tp.c_str(),
                  plan.how.micro_batches, ExchangeOf(plan.how).c_str(), plan.gpus, plan.batch,
                  plan.tpot_seconds * 1e3, plan.tokens_per_second, plan.cost,
                  plan.tokens_per_second / plan.cost, plan.lost_by.c_str());
    text += line;
  }
  if (!unserved.empty()) {
    text += "* this version cannot serve: " + unserved + ". --served leaves such plans out\n";
  }
  text += "COST is the sum of the prices of the GPUs; one L20 costs 1\n";
  const FoundPlan& best = answer.plans[0];
  text += Format(
      "\n%s, one layer of a micro-batch: attention %.0f us, rows out %.0f us, experts %.0f "
      "us (%.1f activated on the busiest instance), contributions back %.0f us\n"
      "memory in a GPU: %.1f GB (attention), %.1f GB (experts); batch limit %.0f per attention "
      "instance; %d slots per layer on an expert instance (%.2f replicas per expert)\n",
      NameOf(best.how).c_str(), AttentionOf(best) * 1e6, best.times.out * 1e6,
      best.times.experts * 1e6, best.times.activated_busiest, best.times.back * 1e6,
      best.memory.attention_bytes / 1e9, best.memory.expert_bytes / 1e9,
      std::ceil(best.batch / best.how.pools / best.how.m), best.how.slots,
      static_cast<double>(best.how.slots) * best.how.n / setting.model.experts);
  text += RenderMicroBatches(setting, best);
  if (const std::optional<Price> price = PriceOf(options, setting, goal, best)) {
    std::snprintf(line, sizeof(line), "%s: costs %.1f %% more than %s\n", price->of.c_str(),
                  price->share * 100, price->than.c_str());
    text += line;
  }
  text += RenderWholes(answer) + RenderFirstTokens(setting, goal, answer);
  if (options.ttft_seconds > 0 && !IsFirstTokenJudged(options)) {
    std::snprintf(
        line, sizeof(line),
        "\nthe target for the first token (%.4g s at p%.4g) was not checked: give the traffic with "
        "--trace, or --requests-per-second, --prompt-tokens and --output-tokens\n",
        options.ttft_seconds, options.ttft_percentile * 100);
    text += line;
  }
  return text;
}

// JSON has no infinity. It becomes null.
nlohmann::ordered_json Finite(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

nlohmann::ordered_json ToJson(const controllers::FirstToken& token, double percentile) {
  nlohmann::ordered_json one = {{"percentile", percentile},
                                {"seconds", Finite(token.seconds)},
                                {"decoding", token.decoding},
                                {"tpotMicroseconds", Finite(token.tpot_seconds * 1e6)},
                                {"promptRowsOfAStep", token.prompt_rows}};
  if (!token.why_not.empty()) one["never"] = token.why_not;
  return one;
}

nlohmann::ordered_json ToJson(const Comparison& beside, int copies) {
  const controllers::MixServeTimes& theirs = beside.theirs;
  return {{"communicationMicroseconds", theirs.communication * 1e6},
          {"ourExchangeMicroseconds", beside.exchange * 1e6},
          {"interTokenMicroseconds", theirs.inter_token * 1e6},
          {"waitSeconds", Finite(theirs.wait)},
          {"meanFirstTokenSeconds", Finite(theirs.first_token)},
          {"tokensPerSecond", theirs.tokens_per_second * copies}};
}

std::string RenderJson(const PlanOptions& options, const Setting& setting,
                       const controllers::PlanGoal& goal, const PlanAnswer& answer) {
  const controllers::Traffic& traffic = goal.traffic;
  nlohmann::ordered_json root;
  root["model"] = setting.model.name;
  root["attentionHardware"] = setting.attention.hardware.name;
  root["expertHardware"] = setting.experts.hardware.name;
  root["goal"] = {{"tpotMicroseconds", goal.tpot_seconds * 1e6}, {"batch", goal.batch}};
  if (options.ttft_seconds > 0) {
    root["goal"]["ttftSeconds"] = options.ttft_seconds;
    root["goal"]["ttftPercentile"] = options.ttft_percentile;
    root["goal"]["ttftJudged"] = IsFirstTokenJudged(options);
  }
  if (traffic.requests_per_second > 0) {
    root["traffic"] = {{"requestsPerSecond", traffic.requests_per_second},
                       {"promptTokens", traffic.prompt_tokens},
                       {"outputTokens", traffic.output_tokens},
                       {"promptLaw", traffic.prompt_law.empty() ? "Exponential" : "Measured"}};
  }
  root["separate"] = answer.is_separation_worthwhile;
  if (const std::optional<Price> price = PriceOf(options, setting, goal, answer.plans[0])) {
    root["price"] = {{"of", price->of}, {"dearerBy", price->share}, {"than", price->than}};
  }
  root["tried"] = answer.tried;
  for (const FoundPlan& plan : answer.plans) {
    nlohmann::ordered_json one;
    one["pools"] = plan.how.pools;
    one["served"] = IsServed(setting, plan.how);
    one["attentionInstances"] = plan.how.m;
    one["expertInstances"] = plan.how.n;
    one["attentionTensorParallel"] = plan.how.tp_attention;
    one["expertTensorParallel"] = plan.how.tp_experts;
    one["microBatches"] = plan.how.micro_batches;
    one["exchangeMode"] = ToString(plan.how.mode);
    one["gate"] = plan.how.gate == GateSide::kAttention ? "Attention" : "Experts";
    one["sum"] = plan.how.sum == SumRule::kFixedPoint ? "FixedPoint" : "Contributions";
    if (plan.how.sum == SumRule::kFixedPoint) one["sumBits"] = plan.how.sum_bits;
    one["compression"] = plan.how.wire == controllers::WireFormat::kFp8 ? "FP8" : "None";
    one["slotsPerInstance"] = plan.how.slots;
    one["batch"] = plan.batch;
    one["maxBatchSize"] = std::ceil(plan.batch / plan.how.pools / plan.how.m);
    one["tpotMicroseconds"] = plan.tpot_seconds * 1e6;
    one["tokensPerSecond"] = plan.tokens_per_second;
    one["gpus"] = plan.gpus;
    one["cost"] = plan.cost;
    one["layerMicroseconds"] = {{"attention", AttentionOf(plan) * 1e6},
                                {"out", plan.times.out * 1e6},
                                {"experts", plan.times.experts * 1e6},
                                {"back", plan.times.back * 1e6}};
    if (plan.first_token) one["firstToken"] = ToJson(*plan.first_token, goal.ttft_percentile);
    if (!plan.lost_by.empty()) one["lostBy"] = plan.lost_by;
    if (plan.is_ruled_out) one["ruledOut"] = true;
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
    if (plan.first_token) {
      one["firstToken"] = ToJson(*plan.first_token, goal.ttft_percentile);
      one["mixServe"] = ToJson(CompareWithMixServe(setting, plan, traffic), plan.copies);
    }
    if (!plan.lost_by.empty()) one["lostBy"] = plan.lost_by;
    root["notSeparated"].push_back(std::move(one));
  }
  return root.dump(1) + "\n";
}

}  // namespace

Result<std::string> Plan(const PlanOptions& asked) {
  PlanOptions options = asked;
  if (!options.check_calibration.empty()) {
    JANUS_ASSIGN_OR_RETURN(const std::vector<CalibrationLine> lines,
                           CheckCalibration(options.check_calibration));
    return RenderCalibration(lines);
  }
  if (options.setting.model.empty()) {
    return InvalidArgument(
        "plan: give --model (a preset or a checkpoint folder), -f with a MoEService whose model is "
        "a folder of this machine (HostPath), or --check-calibration");
  }
  JANUS_ASSIGN_OR_RETURN(Setting setting, ReadSetting(options.setting));
  JANUS_ASSIGN_OR_RETURN(options.traffic, TrafficOf(asked));
  if (options.context == 0) {
    const bool is_said = options.traffic.prompt_tokens > 0;
    options.context =
        is_said ? options.traffic.prompt_tokens + options.traffic.output_tokens / 2 : 1024;
  }
  setting.context = options.context;
  setting.shares_node = options.shared_node;
  const auto per_node = [&](int said) {
    return said == 0 && options.instances_per_pod > 1 ? options.instances_per_pod : said;
  };
  setting.attention_per_node = per_node(options.exchange.attention_per_node);
  setting.experts_per_node = per_node(options.exchange.experts_per_node);
  const controllers::PlanGoal goal = {
      options.tpot_milliseconds / 1e3, options.batch, options.traffic,
      IsFirstTokenJudged(options) ? options.ttft_seconds : 0, options.ttft_percentile};
  JANUS_ASSIGN_OR_RETURN(const PlanAnswer answer, SearchPlans(setting, goal, SpaceOf(options)));
  return options.json ? RenderJson(options, setting, goal, answer)
                      : RenderText(options, setting, goal, answer);
}

}  // namespace janus::cli
