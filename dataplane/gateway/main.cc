#include <grpc/grpc.h>
#include <sys/resource.h>

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>
#include <random>
#include <stop_token>
#include <thread>

#include "common/clock.h"
#include "common/free_memory.h"
#include "common/log.h"
#include "common/model/config.h"
#include "common/stop_signals.h"
#include "dataplane/gateway/attention_pool.h"
#include "dataplane/gateway/options.h"
#include "dataplane/gateway/pool_members.h"
#include "dataplane/gateway/prepare.h"
#include "dataplane/gateway/service.h"
#include "dataplane/gateway/topology_watch.h"
#include "dataplane/model/text_digest.h"
#include "rpc/credentials/handshake_counter.h"
#include "rpc/credentials/own_certificate.h"
#include "rpc/credentials/trust_folder.h"

namespace janus::gateway {
namespace {

// The end-of-text token that the tokenizer names; chat checkpoints name it only there.
std::optional<int32_t> EosOf(const text::ModelText& text) {
  const auto name = text.config.special_tokens.find("eos_token");
  if (name == text.config.special_tokens.end()) return std::nullopt;
  const Result<int32_t> id = text.tokenizer->TokenToId(name->second);
  return id.ok() ? std::optional(*id) : std::nullopt;
}

// One line, whatever their number.
void WarnOfLeftOut(const GenerationDefaults& defaults, const Logger& log) {
  if (defaults.left_out.empty()) return;
  std::string fields;
  for (const std::string& field : defaults.left_out) fields += (fields.empty() ? "" : "; ") + field;
  log.Warning(
      "some values of generation_config.json or config.json are not valid; they are ignored",
      {{"fields", fields}});
}

Result<ServedModel> LoadModel(const GatewayOptions& options, const Logger& log) {
  ServedModel model;
  model.name = options.model_name;
  model.aliases = options.model_aliases;
  model.unknown_parameters = options.unknown_parameters;
  model.dir = options.model_dir;
  model.logits_hash_allowed = options.debug_logits_hash;
  JANUS_ASSIGN_OR_RETURN(const ModelDescription description, LoadModelConfig(options.model_dir));
  JANUS_ASSIGN_OR_RETURN(model.text,
                         text::LoadModelText(options.model_dir, options.chat_template_file));
  auto grammars = text::GrammarCompiler::Create(*model.text.tokenizer);
  if (grammars.ok()) {
    model.grammars = *std::move(grammars);
  } else {
    log.Warning("structured answers are refused", {{"error", grammars.status().message()}});
  }
  if (model.text.chat_template) {
    const std::string& source = model.text.chat_template->source();
    model.tool_format = ToolFormatOf(source);
    model.reads_reasoning = source.find("</think>") != std::string::npos;
  }
  model.tool_format = options.tool_format.value_or(model.tool_format);
  if (model.tool_format == ToolFormat::kHarmony) model.reads_reasoning = true;
  model.reads_reasoning = options.reads_reasoning.value_or(model.reads_reasoning);
  // Otherwise these ids would be refused request by request, as if the prompts were wrong.
  if (model.text.tokenizer->id_limit() > description.vocab) {
    return InvalidArgument(
        options.model_dir + ": its tokenizer has " +
        std::to_string(model.text.tokenizer->id_limit()) +
        " token ids, added tokens included, and the model's vocabulary (vocab_size in config.json) "
        "is " +
        std::to_string(description.vocab) + "; use files of the same model");
  }
  JANUS_ASSIGN_OR_RETURN(model.defaults,
                         LoadGenerationDefaults(options.model_dir, description.vocab));
  if (const std::optional<int32_t> eos = EosOf(model.text)) AddEos(*eos, &model.defaults);
  return model;
}

// Thousands of streams need more descriptors than the usual soft limit.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::string NewGatewayId() {
  std::random_device device;
  char text[32];
  std::snprintf(text, sizeof(text), "gateway-%08x%08x", device(), device());
  return text;
}

// gRPC's own threads may still be cleaning up when the last stream has ended. Waits for them, so
// that the process does not end while they run.
struct GrpcRuntime {
  GrpcRuntime() { grpc_init(); }
  ~GrpcRuntime() { grpc_shutdown_blocking(); }
};

// Between two rounds of dialling the members of a pool. Most of the pools that a service may have
// do not exist, so each is sought less often.
constexpr Seconds kPauseOfOne{2}, kPauseOfPools{4};

// What the pool does every now and then. Counts that are a second old are a quarter of the arrivals
// of four seconds, the shortest interval that decisions look at on a faster clock.
void TendUntil(const std::stop_token& stop, AttentionPool& pool) {
  constexpr std::chrono::milliseconds kEvery(250);
  constexpr int kReportsPerTending = 4;
  int reports = 0;
  std::mutex mu;
  std::condition_variable_any never;
  std::unique_lock lock(mu);
  while (true) {
    never.wait_for(lock, stop, kEvery, [] { return false; });
    if (stop.stop_requested()) return;
    pool.ReportCounts();
    if (++reports % kReportsPerTending != 0) continue;
    pool.MoveFromSilent();
    pool.EndHeld();
  }
}

Status Run(GatewayOptions options, StopSignals& stop) {
  const GrpcRuntime grpc;
  const Logger log;
  const SystemClock clock;
  if (!options.api_keys_file.empty()) {
    JANUS_ASSIGN_OR_RETURN(options.service.api_keys, ReadApiKeys(options.api_keys_file));
  }
  if (options.memory_bytes == 0) {
    JANUS_ASSIGN_OR_RETURN(const int64_t available, AvailableMemoryBytes());
    options.memory_bytes = DefaultMemoryBytes(available, options.http.max_body_bytes);
  }
  JANUS_RETURN_IF_ERROR(CheckMemoryBytes(options.memory_bytes, options.http.max_body_bytes));
  JANUS_ASSIGN_OR_RETURN(const ServedModel model, LoadModel(options, log));
  WarnOfLeftOut(model.defaults, log);
  JANUS_ASSIGN_OR_RETURN(const std::string text_digest, dataplane::DigestText(options.model_dir));
  MetricRegistry registry;
  GatewayMetrics metrics(registry, model.name);
  MemoryBudget memory(options.memory_bytes, metrics.memory);
  metrics.memory_limit.Set(static_cast<double>(options.memory_bytes));
  RefusalCounts refusals(registry);
  std::optional<HandshakeCounter> handshakes;
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  if (!options.trust.empty()) {
    JANUS_ASSIGN_OR_RETURN(const std::shared_ptr<const TrustFolder> trust,
                           TrustFolder::Open(options.trust, clock, refusals));
    if (trust->identity().role != PeerRole::kGateway) {
      return InvalidArgument("--trust: the certificate is " + ToUri(trust->identity()) +
                             "; want a certificate of a gateway");
    }
    log.Info("mutual TLS", {{"identity", ToUri(trust->identity())}});
    handshakes.emplace(refusals, log);
    TellCertificate(trust, registry);
    credentials = trust->Channel();
  }
  AttentionPool pool({.gateway_id = NewGatewayId(),
                      .service_uid = options.service_uid,
                      .queued_requests = options.queued_requests,
                      .credentials = credentials,
                      .hold = options.hold,
                      .text_digest = text_digest},
                     clock, metrics, log);
  auto workers = std::make_unique<TextWorkers>(options.tokenizer_threads,
                                               static_cast<size_t>(options.service.open_streams));
  GatewayService service(options.service, model, pool, *workers, registry, metrics, clock);
  JANUS_ASSIGN_OR_RETURN(std::unique_ptr<HttpServer> server,
                         HttpServer::Listen(options.http, service, memory, metrics, log));
  PoolMembers members(
      [&pool](const std::vector<std::string>& addresses) { pool.SetMembers(addresses); }, metrics);
  std::vector<std::unique_ptr<TopologyWatch>> watches;
  for (int number = 1; number <= options.pools; ++number) {
    watches.push_back(TopologyWatch::Start(
        {.members = MembersOfPool(options.members, number),
         .service_uid = options.service_uid,
         .pool = number,
         .text_digest = text_digest,
         .credentials = credentials,
         .longest_pause = options.pools > 1 ? kPauseOfPools : kPauseOfOne,
         .forgotten_after = options.pools > 1 ? options.forget_pool : Seconds(0)},
        [&members, number](const AttentionMembers& its) { members.Set(number, its); },
        options.pools > 1 ? log.With({{"pool", number}}) : log));
  }
  std::jthread tends([&pool](const std::stop_token& stop) { TendUntil(stop, pool); });
  const bool bracket = options.http.host.find(':') != std::string::npos;
  log.Info("serving", {{"model", model.name},
                       {"members", static_cast<int64_t>(options.members.size())},
                       {"chat_template", model.text.chat_template ? "yes" : "no"},
                       {"api_keys", static_cast<int64_t>(options.service.api_keys.size())},
                       {"queued_requests", options.queued_requests},
                       {"open_streams", options.service.open_streams},
                       {"memory_bytes", options.memory_bytes}});
  // The parent process reads this line.
  std::printf("janus-gateway ready http://%s%s%s:%d\n", bracket ? "[" : "",
              options.http.host.c_str(), bracket ? "]" : "", server->port());
  std::fflush(stdout);
  server->Run(stop, {.lame_duck = options.lame_duck,
                     .drain = options.drain_deadline,
                     .on_leaving = [&] { service.Leave(); },
                     .on_draining = [&] { service.StartDrain(); }});
  tends.request_stop();
  tends.join();
  // Stop in reverse order: first tokens, then work, then the remaining connections.
  watches.clear();
  pool.Stop();
  workers.reset();
  server.reset();
  log.Info("stopped");
  return OkStatus();
}

}  // namespace
}  // namespace janus::gateway

int main(int argc, char** argv) {
  using namespace janus::gateway;
  const std::vector<std::string_view> args(argv + 1, argv + argc);
  if (args.size() == 1 && args[0] == "--version") {
    std::puts("janus-gateway " JANUS_VERSION);
    return 0;
  }
  janus::Result<GatewayOptions> options = ParseGatewayOptions(args);
  if (!options.ok()) {
    std::fprintf(stderr, "janus-gateway: %s\n", options.status().message().c_str());
    return 2;
  }
  if (options->help) {
    std::fputs(GatewayHelp().c_str(), stdout);
    return 0;
  }
  janus::StopSignals stop;
  RaiseDescriptorLimit();
  const janus::Status status = Run(*std::move(options), stop);
  if (!status.ok()) {
    std::fprintf(stderr, "janus-gateway: %s\n", status.message().c_str());
    return 1;
  }
  return 0;
}
