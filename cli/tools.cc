#include "cli/tools.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>

#include "cli/load/runner.h"
#include "cli/place/command.h"
#include "cli/plan/command.h"
#include "cli/plan/service_spec.h"
#include "cli/print.h"
#include "cli/screen.h"
#include "cli/simulate/command.h"
#include "cli/simulate/service_input.h"

namespace janus::cli {
namespace {

struct LoadCommand {
  LoadOptions load;
  std::string trace;
  double rate = 1;
  int64_t requests = 0;
  int input_tokens = 128;
  int output_tokens = 64;
  double timeout_seconds = 120;
  std::string output;
};

// Declares `-f` of commands that only compute. It must be declared before the options that override
// the file.
void DeclareServiceFile(CLI::App& app,
                        const std::function<void(const control::MoEServiceSpec&)>& fill,
                        const std::string& what) {
  app.add_option_function<std::string>(
      "-f,--file",
      [fill](const std::string& file) {
        const Result<control::MoEServiceSpec> spec = ReadServiceSpec(file);
        if (!spec.ok()) throw CLI::ValidationError(spec.status().message());
        fill(*spec);
      },
      "MoEService (.yaml): " + what + "; what is said beside it counts more");
}

void DeclarePlace(CLI::App& app, PlaceOptions& options) {
  CLI::App* place = app.add_subcommand(
      "place", "Place experts on instances from measured routing, and say what it gains");
  place->footer(
      "A decode step reads every expert that any of its tokens chose; the instance that reads\n"
      "most sets the time of the layer. What is placed on half of the measurement is judged on\n"
      "the other half, beside three simpler placements.\n\n"
      "  janusctl place --routing data/routing/gptoss20b_decode --instances 8 --slots 6\n"
      "  janusctl place -f service.yaml --routing measured\n");
  DeclareServiceFile(
      *place, [&options](const control::MoEServiceSpec& spec) { FillPlace(spec, options); },
      "its model, fixed counts, pods, slots, survivable and a full batch");
  place
      ->add_option("--routing", options.routing,
                   "CSV, plain or gzip, or a folder of them: a row per token, a column layer<i> "
                   "with its expert ids separated by blanks")
      ->required();
  place->add_option("--model", options.model,
                    "a preset or a checkpoint's folder, as for plan: whose routing this is");
  place
      ->add_option("--experts", options.experts,
                   "experts per layer (the model's, or one more than the highest id)")
      ->check(CLI::Range(1, 4096));
  place->add_option("--instances", options.instances, "expert instances, n")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  place
      ->add_option("--slots", options.slots_per_instance,
                   "slots of an instance, spare ones included (the fewest that hold the model)")
      ->check(CLI::Range(1, 4096));
  place->add_option("--spare-slots", options.spare_slots, "slots of an instance left empty")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  place
      ->add_option("--instances-per-pod", options.instances_per_pod,
                   "replicas of an expert go to different pods first")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  place->add_option("--batch", options.batch, "tokens of a step")
      ->check(CLI::Range(1, kMostPlacedBatch))
      ->capture_default_str();
  place->add_option("--steps", options.steps, "steps sampled from the measurement")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  place
      ->add_option("--method", options.method,
                   "best (of all, as the second half judges), round-robin, rows (EPLB's), "
                   "coactivation (JANUS's Algorithm 2) or search")
      ->capture_default_str();
  place->add_flag("--greedy", options.greedy,
                  "for a service that schedules by AEBSGreedy; else by AEBS in its exact form");
  place->add_flag("--survivable", options.survivable,
                  "without the largest pod there are slots for every expert");
  place->add_option("--evaluations", options.evaluations, "layouts the search may judge per layer")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  place->add_option("--seed", options.seed, "of sampling and search")->capture_default_str();
  place->add_flag("--json", options.json, "the whole placement, for programs");
}

// Finite numbers. CLI11's own validators print the largest double in full.
CLI::Validator Finite(const char* type, const char* want, bool (*is_sound)(double)) {
  return {[want, is_sound](const std::string& text) {
            double value = 0;
            if (CLI::detail::lexical_cast(text, value) && std::isfinite(value) && is_sound(value)) {
              return std::string();
            }
            return "is " + text + "; want " + want;
          },
          type};
}
CLI::Validator AboveZero() {
  return Finite("POSITIVE", "a number above 0", [](double value) { return value > 0; });
}
CLI::Validator ZeroAndMore() {
  return Finite("NONNEGATIVE", "a number of 0 or more", [](double value) { return value >= 0; });
}

// Declares model and devices for plan and simulate. Returns the option of the model.
CLI::Option* DeclareSetting(CLI::App& app, SettingOptions& options) {
  CLI::Option* model =
      app.add_option("--model", options.model,
                     "deepseek-v2, deepseek-v3, mixtral-8x22b, dbrx, scaled-moe, or a "
                     "checkpoint's folder");
  app.add_option_function<std::string>(
      "--hardware",
      [&options](const std::string& name) {
        options.attention_hardware = options.expert_hardware = name;
      },
      "of both: L20, H800, A800, H20, L40S, A100, H100, H200, or a HardwareProfile (.yaml)");
  app.add_option("--attention-hardware", options.attention_hardware, "of attention instances")
      ->capture_default_str();
  app.add_option("--expert-hardware", options.expert_hardware, "of expert instances")
      ->capture_default_str();
  app.add_option("--routing", options.routing,
                 "measured routing of the model, as for place; else uniform routing, which "
                 "overstates how many experts a step activates");
  app.add_flag("--fp8-kv-cache", options.fp8_kv_cache,
               "keys and values in fp8 (kvCache.dtype: FP8); of latent attention their bytes alone "
               "are fewer, its time stays as measured over 16 bits");
  return model;
}

// Values that the user fixes, which the plan does not search for.
void DeclarePins(CLI::App& plan, controllers::PlanPins& pins) {
  constexpr const char* kGroup = "Pins: said, and not searched for";
  const auto number = [&](const char* name, std::optional<int>& pin, int most, const char* what) {
    plan.add_option(name, pin, what)->check(CLI::Range(1, most))->group(kGroup);
  };
  number("--attention", pins.attention, 4096, "attention instances of a pool");
  number("--experts", pins.experts, 4096, "expert instances of a pool");
  number("--pools", pins.pools, 256, "pools");
  number("--micro-batches", pins.micro_batches, 4, "that alternate between the modules");
  number("--attention-tp", pins.tp_attention, 64, "GPUs of an attention instance");
  number("--experts-tp", pins.tp_experts, 64, "GPUs of an expert instance");
  const auto choice = [&](const char* name, auto& pin, auto choices, const char* what) {
    plan.add_option(name, pin, what)
        ->transform(CLI::CheckedTransformer(std::move(choices), CLI::ignore_case))
        ->group(kGroup);
  };
  choice("--exchange", pins.mode,
         std::map<std::string, ExchangeMode>{{"Direct", ExchangeMode::kDirect},
                                             {"TwoPhaseSingle", ExchangeMode::kTwoPhaseSingle},
                                             {"TwoPhaseParallel", ExchangeMode::kTwoPhaseParallel}},
         "Direct, TwoPhaseSingle or TwoPhaseParallel");
  choice("--gate", pins.gate,
         std::map<std::string, GateSide>{{"Experts", GateSide::kExperts},
                                         {"Attention", GateSide::kAttention}},
         "the module that chooses experts: Experts or Attention");
  choice("--sum", pins.sum,
         std::map<std::string, SumRule>{{"Contributions", SumRule::kContributions},
                                        {"FixedPoint", SumRule::kFixedPoint}},
         "Contributions or FixedPoint");
  choice("--compression", pins.wire,
         std::map<std::string, controllers::WireFormat>{{"None", controllers::WireFormat::kBf16},
                                                        {"FP8", controllers::WireFormat::kFp8}},
         "of rows and contributions on the wire: None or FP8");
  plan.add_option("--whole", pins.whole,
                  "strategy of the whole model, as the table names it: 'DP8 EP8 PP2'")
      ->group(kGroup);
}

void DeclarePlan(CLI::App& app, PlanOptions& options) {
  CLI::App* plan = app.add_subcommand(
      "plan", "Find how many attention and expert instances keep a latency at least cost");
  plan->footer(
      "With --batch: the cheapest plan that decodes so many sequences at once within the TPOT\n"
      "target. With --requests-per-second or --trace: the cheapest that carries the traffic. With\n"
      "neither: the plan of most tokens per second and cost. mAnE is m attention and n expert\n"
      "instances, '4 x mAnE' four pools of them side by side, TP the GPUs of an instance, B the\n"
      "micro-batches that alternate between the modules. Every number of micro-batches, way of "
      "exchanging rows, gate side and tensor-parallel\n"
      "degree is tried; memory must hold weights, keys and buffers. Below the plans stands the\n"
      "whole model on one kind of GPU at its best: TP, DP, EP and PP are degrees of tensor, data,\n"
      "expert and pipeline parallelism, attention first, x2 means two copies. Where that is no\n"
      "dearer and no slower, the advice is not to separate.\n\n"
      "Where the traffic is said, times to the first token are told; with --ttft-seconds too, "
      "plans\n"
      "that miss it are ruled out, and stand below the chosen one.\n\n"
      "  janusctl plan --model deepseek-v3 --hardware H200 --tpot-milliseconds 50\n"
      "  janusctl plan --model deepseek-v3 --hardware H200 --requests-per-second 500 \\\n"
      "      --prompt-tokens 600 --output-tokens 110 --ttft-seconds 2\n"
      "  janusctl plan -f service.yaml --hardware H200 --batch 512\n"
      "  janusctl plan --model dbrx --attention-hardware H20 --expert-hardware L40S\n"
      "  janusctl plan --model deepseek-v3 --hardware H200 --batch 1024 --requests-per-second 5 "
      "\\\n"
      "      --prompt-tokens 2000 --output-tokens 300 --ttft-seconds 2\n"
      "  janusctl plan --model deepseek-v3 --hardware H200 --batch 1024 --trace requests.csv\n");
  auto* check = plan->add_option("--check-calibration", options.check_calibration,
                                 "folder of measured times (data/calibration): fits the cost "
                                 "model and prints how far it is off on what the fit did not see");
  DeclareServiceFile(
      *plan, [&options](const control::MoEServiceSpec& spec) { FillPlan(spec, options); },
      "its model, targets, hardware profiles, maxBatchSize, pods, survivable and limits");
  DeclareSetting(*plan, options.setting)->excludes(check);
  plan->add_option("--tpot-milliseconds", options.tpot_milliseconds, "target, mean of a step")
      ->check(AboveZero())
      ->capture_default_str();
  plan->add_option("--batch", options.batch, "sequences decoding at once (as many as possible)")
      ->check(CLI::Range(1.0, 1e7));
  plan->add_option(
          "--context", options.context,
          "mean keys of a sequence (a prompt and half an answer of what is said of requests, "
          "or 1024)")
      ->check(CLI::Range(1.0, 1e8));
  plan->add_option("--max-attention-gpus", options.max_attention_gpus)
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  plan->add_option("--max-expert-gpus", options.max_expert_gpus)
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  plan->add_option("--max-gpus", options.max_gpus, "of both together (no other limit)")
      ->check(CLI::Range(2, 8192));
  plan->add_option("--max-batch-size", options.max_batch_per_attention,
                   "sequences of an attention instance, or of a GPU with the whole model")
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  plan->add_flag("--survivable", options.survivable,
                 "without the largest pod of experts there are slots for every expert");
  plan->add_option("--instances-per-pod", options.instances_per_pod, "at most")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  plan->add_flag("--whole-pods", options.whole_pods,
                 "every pod has exactly so many instances; its price is printed");
  plan->add_flag("--shared-node", options.shared_node,
                 "both modules may sit in one node (an NVLink domain): a plan that fits one "
                 "exchanges rows over its own links");
  plan->add_flag("--fixed-point", options.fixed_point,
                 "try the sum rule FixedPoint too, which this version does not serve");
  plan->add_flag("--all-modes", options.all_modes,
                 "try FixedPoint and fp8 on the wire too, which this version does not serve");
  plan->add_flag("--served", options.served, "leave out what this version cannot run");
  plan->add_option("--max-pools", options.max_pools, "copies of mAnE side by side, at most")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  DeclarePins(*plan, options.pins);
  auto* trace = plan->add_option(
      "--trace", options.trace,
      "of requests, as for simulate: print times to the first token for their lengths, at the rate "
      "of the busiest five minutes (of a thinned trace say the rate), MixServe's forms beside");
  auto* rate = plan->add_option("--requests-per-second", options.traffic.requests_per_second,
                                "the same at this rate, for the lengths that are said")
                   ->check(CLI::Range(1e-6, 1e9));
  plan->add_option("--prompt-tokens", options.traffic.prompt_tokens,
                   "of a request, mean; lengths are taken as exponential about it")
      ->check(CLI::Range(1.0, 1e8))
      ->needs(rate)
      ->excludes(trace);
  plan->add_option("--output-tokens", options.traffic.output_tokens, "of a request, mean")
      ->check(CLI::Range(1.0, 1e8))
      ->needs(rate)
      ->excludes(trace);
  plan->add_option("--ttft-seconds", options.ttft_seconds,
                   "target of the first token; what misses it is told and not chosen")
      ->check(AboveZero());
  plan->add_option("--ttft-percentile", options.ttft_percentile,
                   "share of requests whose first token is told, and is to keep the target")
      ->check(CLI::Range(0.01, 0.9999))
      ->capture_default_str();
  plan->add_flag("--json", options.json, "for programs");
}

// How policies scale, in the terms of MoEService.
void DeclareScaling(CLI::App& app, controllers::ScalingPolicy& scaling) {
  app.add_option_function<double>(
         "--tpot-milliseconds",
         [&scaling](double milliseconds) { scaling.tpot.seconds = milliseconds / 1e3; },
         "target: a request's mean time between tokens (100)")
      ->check(AboveZero());
  app.add_option_function<double>(
         "--ttft-seconds", [&scaling](double seconds) { scaling.ttft->seconds = seconds; },
         "target of the first token (10)")
      ->check(AboveZero());
  app.add_option_function<double>(
         "--percentile",
         [&scaling](double share) { scaling.tpot.percentile = scaling.ttft->percentile = share; },
         "of requests that are to keep the targets (0.95)")
      ->check(CLI::Range(0.5, 0.9999));
  app.add_option_function<int>(
         "--instances-per-pod",
         [&scaling](int granule) {
           scaling.attention.instances_per_pod = scaling.experts.instances_per_pod = granule;
         },
         "the granule of separated services (1)")
      ->check(CLI::Range(1, 64));
  app.add_option("--interval-seconds", scaling.interval_seconds, "between decisions")
      ->check(CLI::Range(1.0, 86'400.0))
      ->capture_default_str();
  app.add_option("--max-attention", scaling.attention.max, "instances")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--max-experts", scaling.experts.max, "instances")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--max-pools", scaling.max_pools,
                 "copies of mAnE side by side; this version serves one")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--max-batch-size", scaling.max_batch_per_attention,
                 "sequences of an attention instance, or of a GPU with the whole model")
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  const std::map<std::string, controllers::ForecastKind> kinds = {
      {"None", controllers::ForecastKind::kNone},
      {"EWMA", controllers::ForecastKind::kEwma},
      {"Seasonal", controllers::ForecastKind::kSeasonal}};
  app.add_option("--predictor", scaling.forecast.kind,
                 "None, EWMA (trend) or Seasonal (days): what load to be ready for (EWMA)")
      ->transform(CLI::CheckedTransformer(kinds, CLI::ignore_case));
  app.add_flag("--learning,!--no-learning", scaling.is_learning,
               "re-estimate the cost model from what workers measure (yes)");
}

// What the simulation replays.
void DeclareDemand(CLI::App& app, DemandOptions& options) {
  auto* trace =
      app.add_option("--trace", options.trace,
                     "CSV, plain or gzip, or a folder of them as one: arrival_s (or gap_s), "
                     "input_tokens, output_tokens; BurstGPT's columns too");
  app.add_option("--rates", options.rates,
                 "instead: totals per window as ServeGen publishes them; requests are drawn")
      ->excludes(trace);
  app.add_option("--scale", options.scale,
                 "requests that a row (or the rate) stands for; more than 50 million groups are "
                 "refused")
      ->check(AboveZero())
      ->capture_default_str();
  app.add_option("--max-weight", options.max_weight, "requests simulated as one, at most")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--from-hours", options.from_hours,
                 "leave out what came before, on the file's clock; a trace that begins later is "
                 "replayed from its first ten minutes with a request")
      ->check(ZeroAndMore())
      ->capture_default_str();
  app.add_option("--hours", options.hours, "and what came after so many (all)")->check(AboveZero());
  app.add_option("--seed", options.seed, "of spreading and drawing")->capture_default_str();
  app.add_flag("--prefill-elsewhere", options.prefill_elsewhere,
               "prompts are computed by other machines: only decoding is simulated");
}

void DeclareSimulate(CLI::App& app, SimulateOptions& options) {
  CLI::App* simulate = app.add_subcommand(
      "simulate", "Replay a workload under several ways to scale: GPU-hours against latency kept");
  simulate->footer(
      "Every request of the workload is simulated: it queues, its prompt is computed in chunks, "
      "it\n"
      "decodes in a batch with the others; instances start and drain, changes pause. Policies see\n"
      "only what an operator could measure; the oracle sees everything and bounds them.\n\n"
      "policies: ours, disagg, sglang, whole, ceil, hpa, wva, dynamo, static, oracle\n"
      "  ours     attention and experts one by one, as docs/scaling.md decides\n"
      "  disagg, sglang  the baselines of the JANUS paper\n"
      "  whole    copies of the cheapest whole-model instance, by the same decision as ours;\n"
      "           ceil, hpa, wva, dynamo the same copies by demand over capacity, by KV use and\n"
      "           queue, by saturation, by a demand floor and single steps\n"
      "  static   the plan for the busiest 5 min; oracle  the cheapest schedule in hindsight\n\n"
      "A row of the trace stands for --scale requests, spread over its interval and simulated in\n"
      "groups of at most --max-weight: smaller is truer and slower.\n\n"
      "  janusctl simulate --model deepseek-v3 --hardware H200 --tpot-milliseconds 50 \\\n"
      "      --trace data/traces/servegen_deepseek_r1_div2 --scale 4 --policies "
      "ours,whole,oracle \\\n"
      "      --html report.html\n\n"
      "docs/simulation.md says what to believe of it.\n");
  simulate->add_option_function<std::string>(
      "-f,--file,--service",
      [&options](const std::string& file) {
        const Status status = ReadServiceInto(file, options);
        if (!status.ok()) throw CLI::ValidationError(status.message());
      },
      "MoEService (.yaml): its targets, counts, granules, behaviors, limits and predictor; what is "
      "said beside it counts more");
  DeclareSetting(*simulate, options.setting);
  DeclareDemand(*simulate, options.demand);
  DeclareScaling(*simulate, options.scaling);
  simulate->add_option("--policies", options.policies, "which, separated by commas (all)")
      ->delimiter(',');
  simulate->add_flag(
      "--all-modes", options.all_modes,
      "ours may exchange in every way that a plan knows, which this version does not "
      "serve: two phases over every card, FixedPoint, gate on attention, fp8");
  simulate->add_flag("--tighten-peers", options.tightens_peers,
                     "run a peer's rule again at ever stricter thresholds until it attains");
  simulate
      ->add_option("--start-seconds", options.start_seconds,
                   "of an instance, from asked for to ready")
      ->check(CLI::Range(0.0, 86'400.0))
      ->capture_default_str();
  simulate
      ->add_option("--pause-milliseconds", options.pause_milliseconds,
                   "that a change of members stops the steps")
      ->check(ZeroAndMore())
      ->capture_default_str();
  simulate
      ->add_option("--growth-reserve", options.growth_reserve_percent,
                   "percent of the tokens still to come that admission leaves room for")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  simulate
      ->add_option("--oracle-attainment", options.oracle_attainment,
                   "share of requests that the oracle keeps (what ours did)")
      ->check(CLI::Range(0.01, 1.0));
  simulate
      ->add_option("--oracle-interval-seconds", options.oracle_interval_seconds,
                   "how often the oracle may change its plan")
      ->check(CLI::Range(60.0, 86'400.0))
      ->capture_default_str();
  simulate->add_option("--window-seconds", options.window_seconds, "of the records")
      ->check(CLI::Range(10.0, 86'400.0))
      ->capture_default_str();
  simulate
      ->add_option("--attention-factor", options.truth.attention,
                   "true attention times over what policies reckon with")
      ->check(CLI::Range(0.1, 10.0));
  simulate->add_option("--expert-factor", options.truth.experts, "the same of experts")
      ->check(CLI::Range(0.1, 10.0));
  simulate->add_option("--exchange-factor", options.truth.exchange, "the same of the exchange")
      ->check(CLI::Range(0.1, 10.0));
  simulate->add_option("--html", options.html, "file for a report with plots and every decision");
  simulate->add_flag("--json", options.json, "windows and decisions too, for programs");
}

// Shows progress as a line redrawn in place on a terminal, and not elsewhere. Ends after a signal.
Result<std::string> SimulateWithProgress(const SimulateOptions& options, StopSignals& stop) {
  Screen screen(STDERR_FILENO, isatty(STDERR_FILENO) == 1);
  return Simulate(
      options, [&](const std::string& line) { screen.Block(line.empty() ? "" : line + "\n"); },
      [&] { return stop.Came(); });
}

void DeclareLoad(CLI::App& app, LoadCommand& command) {
  CLI::App* load = app.add_subcommand(
      "load",
      "Send requests at their times, whatever became of those before, and measure the streams");
  load->footer("A key that the endpoint asks for is taken from OPENAI_API_KEY.\n");
  LoadOptions& options = command.load;
  load->add_option("--url", options.url, "OpenAI endpoint, http://host:port")
      ->capture_default_str();
  load->add_option("--model", options.model, "model name (the first that the endpoint lists)");
  auto* trace = load->add_option("--trace", command.trace,
                                 "CSV, plain or gzip: arrival_s, input_tokens, output_tokens");
  load->add_option("--rate", command.rate, "requests per second, Poisson arrivals")
      ->excludes(trace)
      ->check(CLI::Range(1e-6, 1e6))
      ->capture_default_str();
  load->add_option("--requests", command.requests,
                   "how many; of a trace its first (all; 100 with --rate)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  load->add_option("--input-tokens", command.input_tokens, "prompt length with --rate")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  load->add_option("--output-tokens", command.output_tokens, "answer length with --rate")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  load->add_option("--time-scale", options.time_scale, "a trace's times are divided by it")
      ->check(CLI::Range(1e-6, 1e6))
      ->capture_default_str();
  load->add_option("--max-concurrency", options.max_concurrency,
                   "requests open at once; an arrival beyond it is skipped and counted")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  load->add_option("--timeout-seconds", command.timeout_seconds, "without a byte of an answer")
      ->check(CLI::Range(1, 86'400))
      ->capture_default_str();
  load->add_option("--temperature", options.temperature, "of sampling; 0 takes the likeliest token")
      ->check(CLI::Range(0.0, 2.0))
      ->capture_default_str();
  load->add_option("--seed", options.seed, "of arrivals and prompts")->capture_default_str();
  load->add_option("--token-ids-below", options.token_ids_below, "prompts are random token ids")
      ->check(CLI::Range(2, 1 << 22))
      ->capture_default_str();
  load->add_flag("--ignore-eos", options.ignore_eos, "ask for answers of full length");
  load->add_option("--output", command.output,
                   "file for one JSON line per request (standard output)");
}

Status Load(LoadCommand& command, StopSignals& stop) {
  std::vector<Arrival> arrivals;
  if (command.trace.empty()) {
    arrivals = PoissonArrivals(command.rate, command.requests > 0 ? command.requests : 100,
                               command.input_tokens, command.output_tokens, command.load.seed);
  } else {
    JANUS_ASSIGN_OR_RETURN(arrivals, ReadTrace(command.trace, command.requests));
  }
  if (const char* key = std::getenv("OPENAI_API_KEY"); key != nullptr) command.load.api_key = key;
  command.load.timeout = Seconds(command.timeout_seconds);
  std::ofstream file;
  if (!command.output.empty()) {
    file.open(command.output, std::ios::trunc);
    if (!file) return FailedPrecondition(command.output + ": cannot be written");
  }
  const auto write = [&](const RequestOutcome& outcome) {
    const std::string line = ToJson(outcome) + "\n";
    if (command.output.empty()) {
      std::fwrite(line.data(), 1, line.size(), stdout);
    } else {
      file << line << std::flush;
    }
  };
  JANUS_ASSIGN_OR_RETURN(const LoadSummary summary,
                         RunLoad(command.load, arrivals, write, [&] { return stop.Came(); }));
  std::fflush(stdout);
  std::fputs(Describe(summary).c_str(), stderr);
  if (summary.completed == 0 && summary.failed > 0) return Unavailable("no request was answered");
  return OkStatus();
}

}  // namespace

struct Tools::Options {
  LoadCommand load;
  PlanOptions plan;
  PlaceOptions place;
  SimulateOptions simulate;
};

Tools::Tools(CLI::App& app) : app_(app), options_(std::make_unique<Options>()) {
  DeclareLoad(app, options_->load);
  DeclarePlan(app, options_->plan);
  DeclarePlace(app, options_->place);
  DeclareSimulate(app, options_->simulate);
}

Tools::~Tools() = default;

std::optional<Status> Tools::Run(StopSignals& stop) {
  if (app_.got_subcommand("plan")) return Print(Plan(options_->plan));
  if (app_.got_subcommand("place")) return Print(Place(options_->place));
  if (app_.got_subcommand("simulate")) return Print(SimulateWithProgress(options_->simulate, stop));
  if (app_.got_subcommand("load")) return Load(options_->load, stop);
  return std::nullopt;
}

}  // namespace janus::cli
