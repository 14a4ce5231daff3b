#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/explain/commands.h"
#include "cli/objects/commands.h"
#include "cli/print.h"
#include "cli/serve.h"
#include "cli/service_file.h"
#include "cli/tools.h"
#include "cli/validate/judge.h"
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
      "show results when this hardware would have them (H200), for the model of --as");
  auto* as = serve.add_option_function<std::string>(
      "--as", [device](const std::string& name) { device().model = name; },
      "the model whose times and memory are emulated (deepseek-v3)");
  hardware->needs(as);
  as->needs(hardware);
  serve
      .add_option_function<int>(
          "--scale", [device](int scale) { device().scale = scale; },
          "with --emulate: rows and sequences that each one stands for (1)")
      ->needs(hardware)
      ->check(CLI::Range(1, kMostTimedScale));
  serve
      .add_option_function<int>(
          "--time-scale", [device](int scale) { device().time_scale = scale; },
          "with --emulate: modelled times are divided by it (1)")
      ->needs(hardware)
      ->check(CLI::Range(1, kMostTimeScale));
}

void DeclareServe(CLI::App& app, ServeOptions& options) {
  CLI::App* serve = app.add_subcommand("serve", "Serve a MoEService on this machine");
  auto* file = serve->add_option("-f,--file", options.file, "MoEService object in YAML");
  auto* model = serve->add_option("--model", options.model_dir,
                                  "checkpoint folder: writes the object, prints it and serves it");
  file->excludes(model);
  serve->add_option("--attention", options.attention, "attention instances, with --model")
      ->needs(model)
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  serve
      ->add_option("--experts", options.experts,
                   "expert instances, with --model (1; with --emulate as many as hold the model)")
      ->needs(model)
      ->check(CLI::Range(1, 1024));
  DeclareTimed(*serve, options.timed);
  serve->add_option("--name", options.name, "name of the service, with --model")->needs(model);
  serve->add_option("--host", options.host, "address to listen on")->capture_default_str();
  serve->add_option("--port", options.port, "port to listen on; 0 takes a free one")
      ->check(CLI::Range(0, 65'535))
      ->capture_default_str();
  serve->add_option("--chat-template", options.chat_template,
                    "Jinja file, before the model's own chat template");
  serve->add_option("--api-keys-file", options.api_keys_file,
                    "keys that clients must send, one per line (anyone may call)");
  serve
      ->add_option("--worker-metrics-port", options.worker_metrics_port,
                   "workers serve /metrics at this port of 127.0.0.1 and the next ones, attention "
                   "first; 0: at sockets in the run's folder, which their logs name")
      ->check(CLI::Range(0, 65'535))
      ->capture_default_str();
  serve->add_flag("--debug-logits-hash", options.debug_logits_hash,
                  "requests may ask for hashes of the logits");
  // The same bounds as janus-gateway's.
  serve
      ->add_option("--memory-bytes", options.memory_bytes,
                   "what clients may make the gateway hold in all; beyond it 429 (a sixteenth of "
                   "the free memory, 32 MiB to 256 MiB)")
      ->check(CLI::Range(int64_t{1} << 20, int64_t{1} << 44));
  serve
      ->add_option("--stream-buffer-bytes", options.gateway.stream_buffer_bytes,
                   "unsent bytes of one answer; beyond it the reader is cut (1048576)")
      ->check(CLI::Range(int64_t{4096}, int64_t{1} << 30));
  const auto seconds = [serve](const char* name, std::optional<int64_t>& value, const char* help) {
    serve->add_option(name, value, help)->check(CLI::Range(1, 86'400));
  };
  seconds("--read-seconds", options.gateway.read_seconds,
          "for a request's headers, and again for its body; then 408 (30)");
  seconds("--first-token-seconds", options.gateway.first_token_seconds,
          "from the queue to the first token; then 504 (600)");
  seconds("--stall-seconds", options.gateway.stall_seconds,
          "between two tokens; then the answer ends with an error (120)");
  seconds("--idle-seconds", options.gateway.idle_seconds,
          "for the next request on a connection; then it is closed (120)");
  seconds("--comment-seconds", options.gateway.comment_seconds,
          "after which a silent stream sends a comment, to stay open (5)");
  serve->add_option("--model-alias", options.gateway.model_aliases,
                    "a further name that clients may call the model; may be repeated");
  serve
      ->add_option("--cors-origin", options.gateway.cors_origins,
                   "web pages of this origin may call, as https://ui.example; * for all; may be "
                   "repeated (none)")
      ->check(CLI::Validator(
          [](const std::string& origin) {
            const bool is_origin =
                origin == "*" || (origin.find("://") != std::string::npos && origin.back() != '/');
            return is_origin ? "" : "want https://ui.example, without a path, or *";
          },
          "ORIGIN"));
  serve
      ->add_option("--unknown-parameters", options.gateway.unknown_parameters,
                   "what becomes of a request with a parameter of no known name (refuse)")
      ->check(CLI::IsMember({"refuse", "ignore"}));
  serve
      ->add_option("--tool-parser", options.gateway.tool_parser,
                   "how the model writes calls of tools (by its chat template)")
      ->check(CLI::IsMember({"none", "hermes", "glm", "deepseek", "kimi", "mistral", "llama"}));
  serve
      ->add_option("--reasoning-parser", options.gateway.reasoning_parser,
                   "whether <think>...</think> of an answer is reasoning_content (by its chat "
                   "template)")
      ->check(CLI::IsMember({"think", "none"}));
}

struct ObjectCommands {
  GetOptions get;
  std::string describe;
  ScaleOptions scale;
  std::string deleted;
};

void DeclareObjects(CLI::App& app, ObjectCommands& commands) {
  CLI::App* get = app.add_subcommand("get", "Show objects of a service that is served here");
  get->add_option("kind", commands.get.kind,
                  "services, pods, events, topologies, deployments or scalers")
      ->capture_default_str();
  get->add_option("name", commands.get.name, "of the service, where several are served");
  get->add_option("-o,--output", commands.get.output, "yaml or json: the objects whole");
  get->add_flag("--show-managed-fields", commands.get.show_managed_fields,
                "with -o: and who owns which field");
  CLI::App* describe =
      app.add_subcommand("describe", "Show a service that is served here, and why it is as it is");
  describe->add_option("name", commands.describe, "of the service, where several are served");
  CLI::App* scale =
      app.add_subcommand("scale", "Change the instances of a service that is served here");
  scale->add_option("name", commands.scale.name, "of the service, where several are served");
  scale->add_option("--attention", commands.scale.attention, "attention instances")
      ->check(CLI::Range(1, 256));
  scale->add_option("--experts", commands.scale.experts, "expert instances")
      ->check(CLI::Range(1, 1024));
  scale->add_flag("--wait", commands.scale.wait, "return when as many serve");
  CLI::App* deleted = app.add_subcommand("delete", "End a service that is served here");
  deleted->add_option("name", commands.deleted, "of the service, where several are served");
}

void DeclareValidate(CLI::App& app, ValidateOptions& options) {
  CLI::App* validate = app.add_subcommand(
      "validate", "Judge objects: would a cluster store them, can this version serve them");
  validate
      ->add_option("-f,--file", options.files,
                   "YAML with one object or several; may be repeated; - is the standard input")
      ->required();
  validate->add_option("--on", options.ground, "machine or cluster: what shall serve them (either)")
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
  return InvalidArgument(std::to_string(refused) + " of " + std::to_string(objects) +
                         (objects == 1 ? " object" : " objects") + " refused, see above");
}

int Run(int argc, char** argv) {
  StopSignals stop;
  CLI::App app{"janusctl: serve Mixture-of-Experts models with attention and experts apart."};
  app.set_version_flag("--version", "janusctl " JANUS_VERSION);
  app.require_subcommand(0, 1);
  ServeOptions serve;
  ValidateOptions validate;
  DeclareServe(app, serve);
  DeclareValidate(app, validate);
  Tools tools(app);
  ObjectCommands objects;
  DeclareObjects(app, objects);
  ExplainCommands explain(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    std::fprintf(stderr, "janusctl: %s; janusctl --help tells more\n", error.what());
    return 2;
  }

  if (app.get_subcommands().empty()) {
    std::fputs(app.help().c_str(), stderr);
    return 2;
  }
  Status status;
  if (app.got_subcommand("serve")) {
    if (serve.file.empty() && serve.model_dir.empty()) {
      status = InvalidArgument("serve: want -f service.yaml or --model DIR");
    } else {
      status = Serve(serve, stop);
    }
  } else if (app.got_subcommand("validate")) {
    status = Validate(validate);
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
