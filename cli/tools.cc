#include "cli/tools.h"

#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <utility>

#include "cli/explain/records_source.h"
#include "cli/load/runner.h"
#include "cli/place/command.h"
#include "cli/plan/command.h"
#include "cli/plan/service_spec.h"
#include "cli/print.h"
#include "cli/screen.h"
#include "cli/simulate/command.h"
#include "cli/simulate/service_input.h"
#include "common/fd.h"

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
      "MoEService file (.yaml) that sets " + what + ". Other options on the command line win");
}

void DeclarePlace(CLI::App& app, PlaceOptions& options, RecordsSource& from) {
  CLI::App* place = app.add_subcommand(
      "place", "Place experts on instances by measured routing, and show what this gains");
  place->footer(
      "A decode step reads every expert that any of its tokens chose. The instance that reads the\n"
      "most experts sets the time of the layer. janusctl places experts by the first half of the\n"
      "measurement, and judges the placement on the second half, beside three simpler ones.\n\n"
      "  janusctl place --routing data/routing/gptoss20b_decode --instances 8 --slots 6\n"
      "  janusctl place -f service.yaml --routing measured\n");
  DeclareServiceFile(
      *place, [&options](const control::MoEServiceSpec& spec) { FillPlace(spec, options); },
      "model, instances, pods, slots, survivable, scheduling and a full batch");
  place->add_option(
      "--routing", options.routing,
      "CSV file, plain or gzip, or a folder of them. Each token has a row; each layer "
      "has a column layer<i> with expert ids, separated by spaces");
  place->add_option(
      "--from", from.service,
      "NAME or NAMESPACE/NAME: use the routing that this running service has sampled");
  place->add_option("--server", from.server,
                    "with --from, http://HOST:PORT of an operator on a cluster, as kubectl "
                    "port-forward opens it. Default: the services that janusctl serves here");
  place->add_option("--model", options.model,
                    "the measured model: a preset or a checkpoint folder, as for plan");
  place
      ->add_option("--experts", options.experts,
                   "experts per layer. Default: those of the model, or the highest id plus 1")
      ->check(CLI::Range(1, 4096));
  place->add_option("--instances", options.instances, "number of expert instances")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  place
      ->add_option(
          "--slots", options.slots_per_instance,
          "slots of an instance, spare slots included. Default: the fewest that hold the model")
      ->check(CLI::Range(1, 4096));
  place->add_option("--spare-slots", options.spare_slots, "slots of an instance that stay empty")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  place
      ->add_option("--instances-per-pod", options.instances_per_pod,
                   "expert instances in a pod; replicas of an expert go to different pods first")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  place->add_option("--batch", options.batch, "tokens in a step")
      ->check(CLI::Range(1, kMostPlacedBatch))
      ->capture_default_str();
  place->add_option("--steps", options.steps, "how many steps to sample from the measurement")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  place
      ->add_option("--method", options.method,
                   "round-robin, rows (as in EPLB), coactivation (Algorithm 2 of the JANUS paper), "
                   "search, or best: the one that the second half judges best")
      ->capture_default_str();
  place->add_flag(
      "--greedy", options.greedy,
      "judge for a service that schedules with AEBSGreedy. Default: AEBS in its exact form");
  place->add_flag("--survivable", options.survivable,
                  "every expert must still have a slot if the largest pod is lost");
  place
      ->add_option("--evaluations", options.evaluations,
                   "how many layouts the search may judge per layer")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  place->add_option("--seed", options.seed, "seed of sampling and search")->capture_default_str();
  place->add_flag("--json", options.json, "print JSON with the whole placement");
}

// Finite numbers. CLI11's own validators print the largest double in full.
CLI::Validator Finite(const char* type, const char* want, bool (*is_sound)(double)) {
  return {[want, is_sound](const std::string& text) {
            double value = 0;
            if (CLI::detail::lexical_cast(text, value) && std::isfinite(value) && is_sound(value)) {
              return std::string();
            }
            return "is '" + text + "'; want " + want;
          },
          type};
}
CLI::Validator AboveZero() {
  return Finite("POSITIVE", "a number above 0", [](double value) { return value > 0; });
}
CLI::Validator ZeroOrMore() {
  return Finite("NONNEGATIVE", "a number of 0 or more", [](double value) { return value >= 0; });
}

// The names of values, as users write them.
template <class T>
using Choices = std::vector<std::pair<std::string, T>>;

// Declares an option that takes one of these names in any case. CLI11's own CheckedTransformer
// prints enumerations as control characters, in help and errors.
template <class T, class Set>
CLI::Option* AddChoice(CLI::App& app, const std::string& option, Choices<T> choices,
                       const std::string& what, Set set) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) names.push_back(name);
  return app
      .add_option_function<std::string>(
          option,
          [choices = std::move(choices), set = std::move(set)](const std::string& given) {
            for (const auto& [name, value] : choices) {
              if (name == given) set(value);
            }
          },
          what)
      ->transform(CLI::IsMember(names, CLI::ignore_case));  // gives the name as it is listed
}

constexpr const char* kMaxBatchHelp =
    "most sequences in an attention instance, or on a GPU with the whole model";

// Declares model and devices for plan and simulate. Returns the option of the model.
CLI::Option* DeclareSetting(CLI::App& app, SettingOptions& options) {
  CLI::Option* model = app.add_option(
      "--model", options.model,
      "model: deepseek-v2, deepseek-v3, mixtral-8x22b, dbrx, scaled-moe, or a checkpoint folder");
  app.add_option_function<std::string>(
      "--hardware",
      [&options](const std::string& name) {
        options.attention_hardware = options.expert_hardware = name;
      },
      "GPU type of all instances: L20, H800, A800, H20, L40S, A100, H100, H200, or a "
      "HardwareProfile file (.yaml)");
  app.add_option("--attention-hardware", options.attention_hardware,
                 "GPU type of attention instances")
      ->capture_default_str();
  app.add_option("--expert-hardware", options.expert_hardware, "GPU type of expert instances")
      ->capture_default_str();
  app.add_option("--routing", options.routing,
                 "measured routing of the model, as for place. Default: uniform routing, which "
                 "overstates how many experts a step activates");
  app.add_flag("--fp8-kv-cache", options.fp8_kv_cache,
               "keep keys and values in fp8 (kvCache.dtype: FP8). With latent attention this saves "
               "memory only; the model keeps the time measured with 16 bits");
  return model;
}

// Values that the user fixes, which the plan does not search for.
void DeclarePins(CLI::App& plan, controllers::PlanPins& pins, ExchangeOptions& exchange) {
  constexpr const char* kGroup = "Fixed values (the search does not change them)";
  const auto number = [&](const char* name, std::optional<int>& pin, int most, const char* what) {
    plan.add_option(name, pin, what)->check(CLI::Range(1, most))->group(kGroup);
  };
  number("--attention", pins.attention, 4096, "attention instances in a pool");
  number("--experts", pins.experts, 4096, "expert instances in a pool");
  number("--pools", pins.pools, 256, "number of pools");
  number("--micro-batches", pins.micro_batches, 4,
         "micro-batches that alternate between attention and experts");
  number("--attention-tp", pins.tp_attention, 64, "GPUs in an attention instance");
  number("--experts-tp", pins.tp_experts, 64, "GPUs in an expert instance");
  const auto choice = [&](const char* name, auto& pin, auto choices, const char* what) {
    AddChoice(plan, name, std::move(choices), what, [&pin](auto value) {
      pin = value;
    })->group(kGroup);
  };
  choice("--exchange", pins.mode,
         Choices<ExchangeMode>{{"Direct", ExchangeMode::kDirect},
                               {"TwoPhaseSingle", ExchangeMode::kTwoPhaseSingle},
                               {"TwoPhaseParallel", ExchangeMode::kTwoPhaseParallel}},
         "how attention and experts exchange rows");
  choice("--gate", pins.gate,
         Choices<GateSide>{{"Experts", GateSide::kExperts}, {"Attention", GateSide::kAttention}},
         "side that chooses the experts of a row");
  choice("--sum", pins.sum,
         Choices<SumRule>{{"Contributions", SumRule::kContributions},
                          {"FixedPoint", SumRule::kFixedPoint}},
         "how attention adds up what experts return");
  plan.add_option("--sum-bits", exchange.sum_bits,
                  "with FixedPoint: bits of an element of a sum on the wire")
      ->check(CLI::IsMember({24, 32}))
      ->capture_default_str()
      ->group(kGroup);
  choice("--compression", pins.wire,
         Choices<controllers::WireFormat>{{"None", controllers::WireFormat::kBf16},
                                          {"FP8", controllers::WireFormat::kFp8}},
         "compression of rows and contributions on the wire");
  plan.add_option("--whole", pins.whole,
                  "strategy of the whole model, written as in the table: 'DP8 EP8 PP2'")
      ->group(kGroup);
}

void DeclarePlan(CLI::App& app, PlanOptions& options) {
  CLI::App* plan = app.add_subcommand(
      "plan",
      "Find the cheapest numbers of attention and expert instances that keep a latency target");
  plan->footer(
      "What the plan is for:\n"
      "  --batch                    the cheapest plan that decodes this many sequences at once\n"
      "  --requests-per-second      the cheapest plan that carries this traffic; --trace gives a\n"
      "                             traffic too\n"
      "  neither                    the plan with the most tokens per second for its cost\n"
      "Every plan keeps the TPOT target, and memory holds its weights, keys and buffers. "
      "janusctl\ntries all numbers of micro-batches, ways to exchange rows, gate sides and degrees "
      "of\ntensor parallelism.\n\n"
      "How to read the table: mAnE has m attention and n expert instances, and 4 x mAnE has four\n"
      "such pools side by side. TP is the number of GPUs in an attention and in an expert "
      "instance.\n"
      "B is the number of micro-batches. The second table has the whole model on one kind of GPU:\n"
      "TP, DP, EP and PP are its degrees of tensor, data, expert and pipeline parallelism, "
      "attention\n"
      "first; x2 means two copies. If that is as cheap and as fast, the advice is not to "
      "separate.\n"
      "\n"
      "With a traffic, janusctl also prints times to the first token. With --ttft-seconds too, it\n"
      "rules out plans that miss this target, and lists them below the chosen one.\n\n"
      "  janusctl plan --model deepseek-v3 --hardware H200 --tpot-milliseconds 50\n"
      "  janusctl plan --model deepseek-v3 --hardware H200 --requests-per-second 500 \\\n"
      "      --prompt-tokens 600 --output-tokens 110 --ttft-seconds 2\n"
      "  janusctl plan -f service.yaml --hardware H200 --batch 512\n"
      "  janusctl plan --model dbrx --attention-hardware H20 --expert-hardware L40S\n"
      "  janusctl plan --model deepseek-v3 --hardware H200 --batch 1024 --requests-per-second 5 "
      "\\\n"
      "      --prompt-tokens 2000 --output-tokens 300 --ttft-seconds 2\n"
      "  janusctl plan --model deepseek-v3 --hardware H200 --batch 1024 --trace requests.csv\n");
  auto* check =
      plan->add_option("--check-calibration", options.check_calibration,
                       "folder with measured times (data/calibration). Fits the cost model and "
                       "prints its error on measurements that the fit did not use");
  DeclareServiceFile(
      *plan, [&options](const control::MoEServiceSpec& spec) { FillPlan(spec, options); },
      "model, targets, hardware profiles, maxBatchSize, pods, survivable, exchange and limits");
  DeclareSetting(*plan, options.setting)->excludes(check);
  plan->add_option("--tpot-milliseconds", options.tpot_milliseconds,
                   "target for the mean time of a decode step")
      ->check(AboveZero())
      ->capture_default_str();
  plan->add_option("--batch", options.batch,
                   "sequences that decode at once. Default: as many as the target allows")
      ->check(CLI::Range(1.0, 1e7));
  plan->add_option("--context", options.context,
                   "mean number of keys of a sequence. Default: a prompt and half an answer of the "
                   "given traffic, or 1024")
      ->check(CLI::Range(1.0, 1e8));
  plan->add_option("--max-attention-gpus", options.max_attention_gpus, "most GPUs for attention")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  plan->add_option("--max-expert-gpus", options.max_expert_gpus, "most GPUs for experts")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  plan->add_option("--max-gpus", options.max_gpus, "most GPUs in all. Default: no other limit")
      ->check(CLI::Range(2, 8192));
  plan->add_option("--max-batch-size", options.max_batch_per_attention, kMaxBatchHelp)
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  plan->add_flag("--survivable", options.survivable,
                 "every expert must still have a slot if the largest pod of experts is lost");
  plan->add_option("--instances-per-pod", options.instances_per_pod, "most instances in a pod")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  plan->add_flag(
      "--whole-pods", options.whole_pods,
      "fill every pod with exactly --instances-per-pod instances, and print what this costs");
  plan->add_flag("--shared-node", options.shared_node,
                 "attention and experts may share a node (an NVLink domain). A plan that fits into "
                 "one node exchanges rows over the links of that node");
  plan->add_flag("--fixed-point", options.fixed_point,
                 "also try the sum rule FixedPoint, which rounds contributions to integers");
  plan->add_flag("--all-modes", options.all_modes, "also try fp8 on the wire, and FixedPoint");
  plan->add_flag("--served", options.served, "leave out plans that this version cannot serve");
  plan->add_option("--max-pools", options.max_pools,
                   "most pools, which are copies of mAnE side by side")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  DeclarePins(*plan, options.pins, options.exchange);
  auto* trace = plan->add_option(
      "--trace", options.trace,
      "trace of requests, as for simulate. Prints times to the first token for its request lengths "
      "and the rate of its busiest five minutes, beside those of MixServe's formulas. If the trace "
      "is a sample, also give --requests-per-second");
  auto* rate = plan->add_option("--requests-per-second", options.traffic.requests_per_second,
                                "rate of requests; give their lengths with --prompt-tokens and "
                                "--output-tokens, or with --trace")
                   ->check(CLI::Range(1e-6, 1e9));
  plan->add_option("--prompt-tokens", options.traffic.prompt_tokens,
                   "mean prompt length; lengths are modelled as exponential with this mean")
      ->check(CLI::Range(1.0, 1e8))
      ->needs(rate)
      ->excludes(trace);
  plan->add_option("--output-tokens", options.traffic.output_tokens, "mean answer length")
      ->check(CLI::Range(1.0, 1e8))
      ->needs(rate)
      ->excludes(trace);
  plan->add_option(
          "--ttft-seconds", options.ttft_seconds,
          "target for the time to the first token. Plans that miss it are listed, not chosen")
      ->check(AboveZero());
  plan->add_option("--ttft-percentile", options.ttft_percentile,
                   "share of requests that must keep --ttft-seconds; the printed times are of this "
                   "percentile")
      ->check(CLI::Range(0.01, 0.9999))
      ->capture_default_str();
  plan->add_flag("--json", options.json, "print JSON");
}

// How policies scale, in the terms of MoEService.
void DeclareScaling(CLI::App& app, controllers::ScalingPolicy& scaling) {
  app.add_option_function<double>(
         "--tpot-milliseconds",
         [&scaling](double milliseconds) { scaling.tpot.seconds = milliseconds / 1e3; },
         "target for a request's mean time between tokens. Default: 100")
      ->check(AboveZero());
  app.add_option_function<double>(
         "--ttft-seconds", [&scaling](double seconds) { scaling.ttft->seconds = seconds; },
         "target for the time to the first token. Default: 10")
      ->check(AboveZero());
  app.add_option_function<double>(
         "--percentile",
         [&scaling](double share) { scaling.tpot.percentile = scaling.ttft->percentile = share; },
         "share of requests that must keep the targets. Default: 0.95")
      ->check(CLI::Range(0.5, 0.9999));
  app.add_option_function<int>(
         "--instances-per-pod",
         [&scaling](int granule) {
           scaling.attention.instances_per_pod = scaling.experts.instances_per_pod = granule;
         },
         "instances in a pod; counts change by whole pods. Default: 1")
      ->check(CLI::Range(1, 64));
  app.add_option("--interval-seconds", scaling.interval_seconds, "time between two decisions")
      ->check(CLI::Range(1.0, 86'400.0))
      ->capture_default_str();
  app.add_option("--max-attention", scaling.attention.max, "most attention instances")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--max-experts", scaling.experts.max, "most expert instances")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--max-pools", scaling.max_pools,
                 "most pools, which are copies of mAnE side by side; this version serves at most 8")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--max-batch-size", scaling.max_batch_per_attention, kMaxBatchHelp)
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  AddChoice(app, "--predictor",
            Choices<controllers::ForecastKind>{{"None", controllers::ForecastKind::kNone},
                                               {"EWMA", controllers::ForecastKind::kEwma},
                                               {"Seasonal", controllers::ForecastKind::kSeasonal}},
            "forecast of the load: None, EWMA (a trend) or Seasonal (days). Default: EWMA",
            [&scaling](controllers::ForecastKind kind) { scaling.forecast.kind = kind; });
  app.add_flag("--learning,!--no-learning", scaling.is_learning,
               "fit the cost model again to the times that workers measure. Default: yes");
}

// What the simulation replays.
void DeclareDemand(CLI::App& app, DemandOptions& options) {
  auto* trace =
      app.add_option("--trace", options.trace,
                     "CSV file, plain or gzip, or a folder of them that are read as one. Columns: "
                     "arrival_s (or gap_s), input_tokens, output_tokens, or those of BurstGPT");
  app.add_option(
         "--rates", options.rates,
         "instead of --trace: totals per window in ServeGen's format; requests are drawn from them")
      ->excludes(trace);
  app.add_option("--scale", options.scale,
                 "multiply the requests by this factor; at most 50 million groups can be simulated")
      ->check(AboveZero())
      ->capture_default_str();
  app.add_option("--max-weight", options.max_weight,
                 "most requests in a group, which is simulated as one request")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--from-hours", options.from_hours,
                 "leave out requests before this hour of the file. The replay begins with the ten "
                 "minutes in which the first remaining request arrives")
      ->check(ZeroOrMore())
      ->capture_default_str();
  app.add_option("--hours", options.hours,
                 "length of the replay from --from-hours. Default: to the end of the file")
      ->check(AboveZero());
  app.add_option("--seed", options.seed, "seed for the times of spread and drawn requests")
      ->capture_default_str();
  app.add_flag("--prefill-elsewhere", options.prefill_elsewhere,
               "other machines compute the prompts: simulate only decoding");
}

void DeclareSimulate(CLI::App& app, SimulateOptions& options) {
  CLI::App* simulate = app.add_subcommand(
      "simulate",
      "Replay a workload under several scaling policies, and compare GPU-hours and kept targets");
  simulate->footer(
      "Every request of the workload is simulated. It waits in the queue, its prompt is computed\n"
      "in chunks, and it decodes in a batch with others. Instances take time to start and to "
      "drain,\n"
      "and a change of members pauses the steps. Policies see only what an operator can measure.\n"
      "The oracle knows the whole workload, and shows how much other policies could save.\n\n"
      "Policies:\n"
      "  ours            scales attention and experts separately, as docs/scaling.md describes\n"
      "  disagg, sglang  the baselines of the JANUS paper\n"
      "  whole           scales copies of the cheapest whole-model instance, by the decision of "
      "ours\n"
      "  ceil            the same copies, by demand over capacity\n"
      "  hpa             the same copies, by KV cache use and queue length\n"
      "  wva             the same copies, by saturation\n"
      "  dynamo          the same copies, by a floor for the demand and single steps\n"
      "  static          the plan for the busiest five minutes, all the time\n"
      "  oracle          the cheapest schedule in hindsight\n\n"
      "A row of the trace stands for --scale requests. They are spread over the row's interval,\n"
      "and simulated in groups of at most --max-weight. Small groups are more exact and slower.\n\n"
      "  janusctl simulate --model deepseek-v3 --hardware H200 --tpot-milliseconds 50 \\\n"
      "      --trace data/traces/servegen_deepseek_r1_div2 --scale 4 --policies "
      "ours,whole,oracle \\\n"
      "      --html report.html\n\n"
      "docs/simulation.md describes how far to trust the results.\n");
  simulate->add_option_function<std::string>(
      "-f,--file,--service",
      [&options](const std::string& file) {
        const Status status = ReadServiceInto(file, options);
        if (!status.ok()) throw CLI::ValidationError(status.message());
      },
      "MoEService file (.yaml) that sets model, targets, counts, instances per pod, behaviors, "
      "limits and predictor. Other options on the command line win");
  DeclareSetting(*simulate, options.setting);
  DeclareDemand(*simulate, options.demand);
  DeclareScaling(*simulate, options.scaling);
  simulate
      ->add_option(
          "--policies", options.policies,
          "policies to run, separated by commas. Default: all; with --timed-scale, all without "
          "copies of the whole model")
      ->delimiter(',');
  simulate->add_flag(
      "--all-modes", options.all_modes,
      "ours may choose among all ways to exchange rows, at any time: fp8, FixedPoint in 24 bits, "
      "and the gate on attention, which this version does not serve on GPUs");
  AddChoice(*simulate, "--compression",
            Choices<controllers::WireFormat>{{"None", controllers::WireFormat::kBf16},
                                             {"FP8", controllers::WireFormat::kFp8}},
            "compression of rows and contributions on the wire",
            [&options](auto value) { options.pins.wire = value; });
  AddChoice(*simulate, "--sum",
            Choices<SumRule>{{"Contributions", SumRule::kContributions},
                             {"FixedPoint", SumRule::kFixedPoint}},
            "how attention adds up what experts return",
            [&options](auto value) { options.pins.sum = value; });
  simulate
      ->add_option("--sum-bits", options.exchange.sum_bits,
                   "with FixedPoint: bits of an element of a sum on the wire")
      ->check(CLI::IsMember({24, 32}))
      ->capture_default_str();
  simulate->add_flag("--tighten-peers", options.tightens_peers,
                     "run ceil, hpa, wva, dynamo and sglang again with stricter thresholds until "
                     "they keep the targets");
  simulate->add_option("--first-counts", options.first_counts,
                       "mAnE: attention and expert instances with which ours begins. Default: what "
                       "the load of the first minutes needs");
  simulate
      ->add_option("--start-seconds", options.start_seconds,
                   "time from the request for an instance until it is ready")
      ->check(CLI::Range(0.0, 86'400.0))
      ->capture_default_str();
  simulate
      ->add_option("--pause-milliseconds", options.pause_milliseconds,
                   "time for which a change of members pauses the steps")
      ->check(ZeroOrMore())
      ->capture_default_str();
  simulate
      ->add_option("--growth-reserve", options.growth_reserve_percent,
                   "percent of the tokens still to come for which admission keeps memory free")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  simulate
      ->add_option("--timed-scale", options.rows_for_one,
                   "each request takes the time and memory of so many, as on timed devices "
                   "(spec.timed.scale). They come together; those of --scale come apart")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  simulate
      ->add_option("--oracle-attainment", options.oracle_attainment,
                   "share of requests for which the oracle keeps the targets. Default: the share "
                   "that ours kept")
      ->check(CLI::Range(0.01, 1.0));
  simulate
      ->add_option("--oracle-interval-seconds", options.oracle_interval_seconds,
                   "how often the oracle may change its plan")
      ->check(CLI::Range(60.0, 86'400.0))
      ->capture_default_str();
  simulate
      ->add_option("--window-seconds", options.window_seconds, "length of a window in the report")
      ->check(CLI::Range(10.0, 86'400.0))
      ->capture_default_str();
  simulate
      ->add_option(
          "--attention-factor", options.truth.attention,
          "true attention times, as a factor of the times that policies assume. Default: 1")
      ->check(CLI::Range(0.1, 10.0));
  simulate->add_option("--expert-factor", options.truth.experts, "the same for experts")
      ->check(CLI::Range(0.1, 10.0));
  simulate->add_option("--exchange-factor", options.truth.exchange, "the same for the exchange")
      ->check(CLI::Range(0.1, 10.0));
  simulate->add_option("--html", options.html,
                       "write a report with plots and decisions to this HTML file");
  simulate->add_flag("--json", options.json, "print JSON, with windows and decisions");
}

// Shows progress as a line redrawn in place on a terminal, and not elsewhere. Ends after a signal.
Result<std::string> SimulateWithProgress(const SimulateOptions& options, StopSignals& stop) {
  Screen screen(STDERR_FILENO, isatty(STDERR_FILENO) == 1);
  return Simulate(
      options, [&](const std::string& line) { screen.Block(line.empty() ? "" : line + "\n"); },
      [&] { return stop.Came(); });
}

void DeclareLoad(CLI::App& app, LoadCommand& command) {
  CLI::App* load = app.add_subcommand("load",
                                      "Send requests at planned times, without waiting for earlier "
                                      "answers, and measure the streams");
  load->footer("If the endpoint needs an API key, set OPENAI_API_KEY.\n");
  LoadOptions& options = command.load;
  load->add_option("--url", options.url, "server with the OpenAI API, as http://host:port")
      ->capture_default_str();
  load->add_option("--model", options.model,
                   "model name. Default: the first that the server lists");
  auto* trace = load->add_option("--trace", command.trace,
                                 "CSV file, plain or gzip, or a folder of them. Columns: arrival_s "
                                 "(or gap_s), input_tokens, output_tokens");
  load->add_option("--rate", command.rate, "requests per second, with Poisson arrivals")
      ->excludes(trace)
      ->check(CLI::Range(1e-6, 1e6))
      ->capture_default_str();
  load->add_option(
          "--requests", command.requests,
          "how many requests to send; of a trace, the first ones. Default: 100, or the whole trace")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  load->add_option("--input-tokens", command.input_tokens, "prompt length with --rate")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  load->add_option("--output-tokens", command.output_tokens, "answer length with --rate")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  load->add_option("--time-scale", options.time_scale, "divide the arrival times by this number")
      ->check(CLI::Range(1e-6, 1e6))
      ->capture_default_str();
  load->add_option("--max-concurrency", options.max_concurrency,
                   "most requests open at once; beyond it, an arrival is skipped and counted")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  load->add_option("--timeout-seconds", command.timeout_seconds,
                   "a request fails after this time without a byte of an answer")
      ->check(CLI::Range(1, 86'400))
      ->capture_default_str();
  load->add_option("--temperature", options.temperature,
                   "sampling temperature; 0 takes the most likely token")
      ->check(CLI::Range(0.0, 2.0))
      ->capture_default_str();
  load->add_option("--seed", options.seed, "seed of arrival times and prompts")
      ->capture_default_str();
  load->add_option("--token-ids-below", options.token_ids_below,
                   "prompts are random token ids between 0 and this number")
      ->check(CLI::Range(2, 1 << 22))
      ->capture_default_str();
  load->add_flag("--ignore-eos", options.ignore_eos,
                 "ask the server to ignore end-of-text tokens, so that answers have full length");
  load->add_option("--output", command.output,
                   "file for one JSON line per request. Default: standard output");
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
    if (!file)
      return FailedPrecondition(command.output +
                                ": cannot write this file; check its folder and permissions");
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
  if (summary.completed == 0 && summary.failed > 0)
    return Unavailable("no request was answered; the JSON lines have the errors");
  return OkStatus();
}

}  // namespace

struct Tools::Options {
  LoadCommand load;
  PlanOptions plan;
  PlaceOptions place;
  RecordsSource place_from;
  SimulateOptions simulate;
};

Tools::Tools(CLI::App& app) : app_(app), options_(std::make_unique<Options>()) {
  DeclareLoad(app, options_->load);
  DeclarePlan(app, options_->plan);
  DeclarePlace(app, options_->place, options_->place_from);
  DeclareSimulate(app, options_->simulate);
}

Tools::~Tools() = default;

namespace {

Result<std::string> PlaceFrom(const RecordsSource& from, PlaceOptions options) {
  const bool has_service = !from.service.empty() || !from.server.empty();
  if (has_service == !options.routing.empty()) {
    return InvalidArgument("place: give either --routing FILE or --from SERVICE");
  }
  if (!has_service) return Place(options);
  JANUS_ASSIGN_OR_RETURN(const RecordsOf records, ReadRecords(from, "/routing"));
  const Fd file(memfd_create("routing", MFD_CLOEXEC));
  size_t written = 0;
  while (file && written < records.text.size()) {
    const ssize_t wrote =
        write(file.get(), records.text.data() + written, records.text.size() - written);
    if (wrote <= 0) break;
    written += static_cast<size_t>(wrote);
  }
  if (written < records.text.size()) {
    return ResourceExhausted("place: no memory for the routing of " + records.key.ToString());
  }
  options.routing = "/proc/self/fd/" + std::to_string(file.get());
  return Place(options);
}

}  // namespace

std::optional<Status> Tools::Run(StopSignals& stop) {
  if (app_.got_subcommand("plan")) return Print(Plan(options_->plan));
  if (app_.got_subcommand("place")) return Print(PlaceFrom(options_->place_from, options_->place));
  if (app_.got_subcommand("simulate")) return Print(SimulateWithProgress(options_->simulate, stop));
  if (app_.got_subcommand("load")) return Load(options_->load, stop);
  return std::nullopt;
}

}  // namespace janus::cli
