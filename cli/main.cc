#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <string>

#include "cli/calibrate.h"
#include "cli/explain/commands.h"
#include "cli/hub/models.h"
#include "cli/objects/commands.h"
#include "cli/print.h"
#include "cli/serve.h"
#include "cli/service_file.h"
#include "cli/tools.h"
#include "cli/validate/judge.h"
#include "common/pools.h"
#include "common/stop_signals.h"
#include "common/timed_device.h"

namespace janus::cli {
namespace {

struct ValidateOptions {
  std::vector<std::string> files;
  std::string ground;  // "machine" or "cluster"; empty: both
};

// The flags of timed devices, which together make one.
void DeclareTimed(CLI::App& serve, std::optional<TimedDevice>& timed) {
  const auto device = [&timed]() -> TimedDevice& { return timed ? *timed : timed.emplace(); };
  auto* hardware = serve.add_option_function<std::string>(
      "--emulate", [device](const std::string& name) { device().hardware = name; },
      "emulate this GPU type, for example H200: each result appears when that GPU would have it");
  auto* as = serve.add_option_function<std::string>(
      "--as", [device](const std::string& name) { device().model = name; },
      "model whose times and memory are emulated, for example deepseek-v3");
  hardware->needs(as);
  as->needs(hardware);
  serve
      .add_option_function<int>(
          "--scale", [device](int scale) { device().scale = scale; },
          "with --emulate: how many rows and sequences each one stands for. Default: 1")
      ->needs(hardware)
      ->check(CLI::Range(1, kMostTimedScale));
  serve
      .add_option_function<int>(
          "--time-scale", [device](int scale) { device().time_scale = scale; },
          "with --emulate: divide the modelled times by this number. Default: 1")
      ->needs(hardware)
      ->check(CLI::Range(1, kMostTimeScale));
}

void DeclareServe(CLI::App& app, ServeOptions& options) {
  CLI::App* serve = app.add_subcommand("serve", "Serve a MoEService on this machine");
  auto* file =
      serve->add_option("-f,--file", options.file, "YAML file with the MoEService to serve");
  auto* model = serve->add_option(
      "--model", options.model_dir,
      "checkpoint folder, or a model of a Hugging Face hub as owner/name or owner/name@revision, "
      "which is downloaded first; janusctl writes a MoEService for it, prints it and serves it");
  file->excludes(model);
  auto* attention =
      serve->add_option("--attention", options.attention,
                        "number of attention instances, with --model. Default: 1; with "
                        "--tpot-milliseconds, as many as the target needs");
  attention->needs(model)->check(CLI::Range(1, 256));
  auto* experts = serve->add_option(
      "--experts", options.experts,
      "number of expert instances, with --model. Default: 1; with --emulate, as many as hold the "
      "emulated model; with --tpot-milliseconds, as many as the target needs");
  experts->needs(model)->check(CLI::Range(1, 1024));
  serve
      ->add_option("--pools", options.pools,
                   "number of pools, with --model: copies of all instances, each with an exchange "
                   "of its own. janusctl scale can change it later. Default: 1, for good")
      ->needs(model)
      ->check(CLI::Range(1, kMostPools));
  serve
      ->add_option("--tpot-milliseconds", options.tpot_milliseconds,
                   "target for the time per output token, with --model: the service sets its own "
                   "counts so that 95 % of the requests keep it")
      ->needs(model)
      ->check(CLI::Range(1, 600'000));
  serve
      ->add_option("--device", options.device,
                   "what instances compute on, with --model. Auto: the GPUs of this machine if "
                   "janus-worker can use them, otherwise its CPUs")
      ->needs(model)
      ->transform(CLI::IsMember({"Auto", "CPU", "CUDA"}, CLI::ignore_case))
      ->capture_default_str();
  serve
      ->add_option("--micro-batches", options.micro_batches,
                   "micro-batches of a step, with --model. Default: automatic")
      ->needs(model)
      ->check(CLI::Range(1, 4));
  auto* nodes = serve->add_option_function<std::string>(
      "--nodes",
      [&options](const std::string& text) {
        const Result<PlayedNodes> read = ReadPlayedNodes(text);
        if (!read.ok()) throw CLI::ValidationError("--nodes", read.status().message());
        options.nodes = *read;
      },
      "play several nodes on this machine, with --model: 2x4,4x2 is 2 attention nodes of 4 "
      "instances and 4 expert nodes of 2. Nodes reach each other over TCP, as machines do");
  nodes->needs(model)->excludes(attention)->excludes(experts);
  serve
      ->add_option("--exchange-mode", options.exchange_mode,
                   "how rows travel between nodes, with --model. Default: automatic")
      ->needs(model)
      ->check(CLI::IsMember({"Auto", "Direct", "TwoPhaseSingle", "TwoPhaseParallel"}));
  serve
      ->add_option("--compression", options.compression,
                   "of rows between workers, with --model: FP8 sends about half of the bytes, and "
                   "answers differ a little. Default: None")
      ->needs(model)
      ->transform(CLI::IsMember({"None", "FP8"}, CLI::ignore_case));
  serve
      ->add_option(
          "--gate", options.gate,
          "the role that computes the gate, with --model: Attention sends rows only to the "
          "instances or nodes that hold one of their experts. Default: by the measured links of "
          "several nodes")
      ->needs(model)
      ->transform(CLI::IsMember({"Auto", "Experts", "Attention"}, CLI::ignore_case));
  serve
      ->add_option("--transport", options.transport,
                   "between all workers, with --model: RDMA needs a device that is up. Default: "
                   "shared memory, and TCP between played nodes")
      ->needs(model)
      ->transform(CLI::IsMember({"Auto", "SharedMemory", "TCP", "RDMA"}, CLI::ignore_case));
  auto* sum =
      serve->add_option("--sum", options.sum,
                        "how contributions of experts are added, with --model. FixedPoint: sums of "
                        "integers, of which fewer bytes travel; answers differ a little. Default: "
                        "Contributions");
  // "fixed-point" too.
  const auto plain = [](std::string text) {
    std::erase(text, '-');
    return CLI::ignore_case(text);
  };
  sum->needs(model)->transform(CLI::IsMember({"Auto", "Contributions", "FixedPoint"}, plain));
  serve
      ->add_option("--sum-bits", options.sum_bits,
                   "with --sum FixedPoint: bits of an element of a sum on the wire")
      ->needs(sum)
      ->check(CLI::IsMember({24, 32}))
      ->capture_default_str();
  serve
      ->add_option("--sum-exponents", options.sum_exponents,
                   "with --sum FixedPoint: the exponents that janusctl calibrate prints, with "
                   "commas. Default: calibrated at the start, which computes some prompts")
      ->needs(sum)
      ->delimiter(',')
      ->check(CLI::Range(-100, 100));
  DeclareTimed(*serve, options.timed);
  serve
      ->add_option("--name", options.name,
                   "name of the service, with --model. Default: made from the folder's name")
      ->needs(model);
  serve->add_option("--host", options.host, "address to listen on")->capture_default_str();
  serve->add_option("--port", options.port, "port to listen on; 0 picks a free port")
      ->check(CLI::Range(0, 65'535))
      ->capture_default_str();
  serve->add_option("--chat-template", options.chat_template,
                    "Jinja file that replaces the model's own chat template");
  serve->add_option(
      "--api-keys-file", options.api_keys_file,
      "file with one key per line; clients must send one of them. Default: clients need no key");
  serve
      ->add_option("--worker-metrics-port", options.worker_metrics_port,
                   "first port of the workers' /metrics on 127.0.0.1. Each worker takes the next "
                   "port, attention instances first. With 0, workers use sockets in the run's "
                   "folder; their logs name them")
      ->check(CLI::Range(0, 65'535))
      ->capture_default_str();
  serve->add_flag("--debug-logits-hash", options.debug_logits_hash,
                  "let requests ask for hashes of the logits");
  // The same bounds as janus-gateway's.
  serve
      ->add_option("--memory-bytes", options.memory_bytes,
                   "most memory that the gateway holds for all clients; a request beyond it gets "
                   "status 429. Default: a sixteenth of the free memory, from 32 MiB to 256 MiB")
      ->check(CLI::Range(int64_t{1} << 20, int64_t{1} << 44));
  serve
      ->add_option("--stream-buffer-bytes", options.gateway.stream_buffer_bytes,
                   "most unsent bytes of one answer; beyond it, the gateway closes the connection. "
                   "Default: 1048576")
      ->check(CLI::Range(int64_t{4096}, int64_t{1} << 30));
  const auto seconds = [serve](const char* name, std::optional<int64_t>& value, const char* help) {
    serve->add_option(name, value, help)->check(CLI::Range(1, 86'400));
  };
  seconds(
      "--read-seconds", options.gateway.read_seconds,
      "time limit for a request's headers, and again for its body; then status 408. Default: 30");
  seconds("--first-token-seconds", options.gateway.first_token_seconds,
          "time limit from the queue to the first token; then status 504. Default: 600");
  seconds("--stall-seconds", options.gateway.stall_seconds,
          "time limit between two tokens; then the answer ends with an error. Default: 120");
  seconds(
      "--idle-seconds", options.gateway.idle_seconds,
      "time limit for the next request on a connection; then the gateway closes it. Default: 120");
  seconds("--comment-seconds", options.gateway.comment_seconds,
          "a stream that is silent for this time sends a comment to stay open. Default: 5");
  serve->add_option("--model-alias", options.gateway.model_aliases,
                    "another name for the model in requests; may be repeated");
  serve
      ->add_option("--cors-origin", options.gateway.cors_origins,
                   "let web pages of this origin call, for example https://ui.example; * lets all "
                   "call; may be repeated. Default: none")
      ->check(CLI::Validator(
          [](const std::string& origin) {
            const bool is_origin =
                origin == "*" || (origin.find("://") != std::string::npos && origin.back() != '/');
            return is_origin ? ""
                             : "'" + origin +
                                   "' is not an origin; want a URL like https://ui.example, "
                                   "without a path, or *";
          },
          "ORIGIN"));
  serve
      ->add_option("--unknown-parameters", options.gateway.unknown_parameters,
                   "what to do with a request that has an unknown parameter. Default: refuse")
      ->check(CLI::IsMember({"refuse", "ignore"}));
  serve
      ->add_option(
          "--tool-parser", options.gateway.tool_parser,
          "format in which the model writes tool calls. Default: found from its chat template")
      ->check(CLI::IsMember(
          {"none", "hermes", "glm", "deepseek", "kimi", "mistral", "llama", "llama4"}));
  serve
      ->add_option("--reasoning-parser", options.gateway.reasoning_parser,
                   "think: the text in <think>...</think> of an answer becomes reasoning_content. "
                   "Default: found from the chat template")
      ->check(CLI::IsMember({"think", "none"}));
}

void DeclareModels(CLI::App& app, ModelsOptions& options) {
  CLI::App* models = app.add_subcommand(
      "models", "Show the models that the Hugging Face cache of this machine holds");
  models->add_option("model", options.model,
                     "owner/name or owner/name@revision: show what this model of a hub would need; "
                     "fetches its small files only");
  models->add_flag("--download", options.download, "with a model: download it, without serving it");
}

void DeclareCalibrate(CLI::App& app, CalibrateOptions& options) {
  CLI::App* calibrate = app.add_subcommand(
      "calibrate",
      "Run a model on this machine's CPUs and print the exponents for exchange.sum: FixedPoint");
  calibrate
      ->add_option("model", options.model,
                   "checkpoint folder, or owner/name or owner/name@revision of a hub, which is "
                   "downloaded first. Its weights must fit into memory")
      ->required();
  calibrate->add_option("--prompts", options.prompts,
                        "file with one prompt in each line, like those that will be served. "
                        "Default: built in");
  calibrate->add_option("--sum-bits", options.bits, "bits of an element of a sum on the wire")
      ->check(CLI::IsMember({24, 32}))
      ->capture_default_str();
}

constexpr const char* kServiceName = "service name; needed only if several services run here";

struct ObjectCommands {
  GetOptions get;
  std::string describe;
  ScaleOptions scale;
  std::string deleted;
};

void DeclareObjects(CLI::App& app, ObjectCommands& commands) {
  CLI::App* get =
      app.add_subcommand("get", "Show the objects of a service that runs on this machine");
  get->add_option("kind", commands.get.kind,
                  "services, pods, events, topologies, deployments or scalers")
      ->capture_default_str();
  get->add_option("name", commands.get.name, kServiceName);
  get->add_option("-o,--output", commands.get.output, "print the whole objects, as yaml or json");
  get->add_flag("--show-managed-fields", commands.get.show_managed_fields,
                "with -o: also print which manager owns each field");
  CLI::App* describe = app.add_subcommand(
      "describe", "Show the state of a service that runs on this machine, and the reasons for it");
  describe->add_option("name", commands.describe, kServiceName);
  CLI::App* scale =
      app.add_subcommand("scale", "Change how many instances a service on this machine has");
  scale->add_option("name", commands.scale.name, kServiceName);
  scale->add_option("--attention", commands.scale.attention, "new number of attention instances")
      ->check(CLI::Range(1, 256));
  scale->add_option("--experts", commands.scale.experts, "new number of expert instances")
      ->check(CLI::Range(1, 1024));
  scale
      ->add_option("--pools", commands.scale.pools,
                   "new number of pools, of a service that was started with --pools")
      ->check(CLI::Range(1, kMostPools));
  scale->add_flag("--wait", commands.scale.wait,
                  "return when the service is ready with these numbers");
  CLI::App* deleted =
      app.add_subcommand("delete", "Delete a service that runs on this machine; its processes end");
  deleted->add_option("name", commands.deleted, kServiceName);
}

void DeclareValidate(CLI::App& app, ValidateOptions& options) {
  CLI::App* validate = app.add_subcommand(
      "validate", "Check objects: would a cluster store them, and can this version serve them?");
  validate
      ->add_option("-f,--file", options.files,
                   "YAML file with one or more objects; may be repeated; - reads standard input")
      ->required();
  validate
      ->add_option("--on", options.ground,
                   "where the objects will be served: machine or cluster. Default: check both, and "
                   "accept if one of them can")
      ->check(CLI::IsMember({"machine", "cluster"}));
}

Status Validate(const ValidateOptions& options) {
  std::vector<control::Ground> grounds;
  if (options.ground != "cluster") grounds.push_back(control::Ground::kMachine);
  if (options.ground != "machine") grounds.push_back(control::Ground::kCluster);
  int objects = 0, refused = 0;
  for (const std::string& file : options.files) {
    const bool is_input = file == "-";
    JANUS_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(is_input ? "/dev/stdin" : file));
    const std::string name = is_input ? "standard input" : file;
    JANUS_ASSIGN_OR_RETURN(const std::vector<Verdict> verdicts, Judge(text, name, grounds));
    for (const Verdict& verdict : verdicts) {
      std::fputs(Describe(verdict, name).c_str(), stdout);
      ++objects;
      if (!verdict.is_good()) ++refused;
    }
  }
  if (refused == 0) return OkStatus();
  return InvalidArgument("refused " + std::to_string(refused) + " of " + std::to_string(objects) +
                         (objects == 1 ? " object" : " objects") + "; the reasons are above");
}

int Run(int argc, char** argv) {
  StopSignals stop;
  CLI::App app{
      "janusctl serves Mixture-of-Experts models, with attention and experts in separate "
      "processes."};
  app.set_version_flag("--version", "janusctl " JANUS_VERSION);
  app.require_subcommand(0, 1);
  ServeOptions serve;
  ValidateOptions validate;
  ModelsOptions models;
  DeclareServe(app, serve);
  DeclareModels(app, models);
  DeclareValidate(app, validate);
  CalibrateOptions calibrate;
  DeclareCalibrate(app, calibrate);
  Tools tools(app);
  ObjectCommands objects;
  DeclareObjects(app, objects);
  ExplainCommands explain(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    std::string command = "janusctl";
    for (const CLI::App* one : app.get_subcommands()) command += " " + one->get_name();
    std::fprintf(stderr, "janusctl: %s; see %s --help\n", error.what(), command.c_str());
    return 2;
  }

  if (app.get_subcommands().empty()) {
    std::fputs(app.help().c_str(), stderr);
    return 2;
  }
  Status status;
  if (app.got_subcommand("serve")) {
    if (serve.file.empty() && serve.model_dir.empty()) {
      status = InvalidArgument("serve: give -f service.yaml or --model DIR or owner/name");
    } else {
      status = Serve(serve, stop);
    }
  } else if (app.got_subcommand("models")) {
    status = Models(models, stop);
  } else if (app.got_subcommand("validate")) {
    status = Validate(validate);
  } else if (app.got_subcommand("calibrate")) {
    status = Calibrate(calibrate, stop);
  } else if (app.got_subcommand("get")) {
    status = Print(Get(objects.get));
  } else if (app.got_subcommand("describe")) {
    status = Print(Describe(objects.describe));
  } else if (app.got_subcommand("scale")) {
    status = Print(Scale(objects.scale, stop));
  } else if (app.got_subcommand("delete")) {
    status = Print(Delete(objects.deleted));
  } else if (std::optional<Result<std::string>> text = explain.Run()) {
    status = Print(*std::move(text));
  } else if (const std::optional<Status> run = tools.Run(stop)) {
    status = *run;
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "janusctl: %s\n", status.message().c_str());
  return status.code() == StatusCode::kInvalidArgument ? 2 : 1;
}

}  // namespace
}  // namespace janus::cli

int main(int argc, char** argv) {
  return janus::cli::Run(argc, argv);
}
