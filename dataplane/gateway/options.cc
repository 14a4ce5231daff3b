#include "dataplane/gateway/options.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <sstream>

#include "common/pools.h"
#include "common/read_file.h"
#include "dataplane/gateway/pool_members.h"

namespace janus::gateway {

namespace {

struct Flag {
  const char* name;
  const char* value;  // its name in the help; null: a switch
  const char* help;
  std::function<Status(std::string_view, GatewayOptions*)> set;
};

using Setter = std::function<Status(std::string_view, GatewayOptions*)>;

Setter Text(std::string GatewayOptions::*field) {
  return [field](std::string_view value, GatewayOptions* out) {
    out->*field = std::string(value);
    return OkStatus();
  };
}

// Parses a whole number in [least, most] and passes it to `assign`.
Setter Number(int64_t least, int64_t most,
              const std::function<void(int64_t, GatewayOptions*)>& assign) {
  return [=](std::string_view value, GatewayOptions* out) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(value.begin(), value.end(), number);
    if (error != std::errc() || end != value.end() || number < least || number > most) {
      return InvalidArgument("'" + std::string(value) + "' is not an integer between " +
                             std::to_string(least) + " and " + std::to_string(most));
    }
    assign(number, out);
    return OkStatus();
  };
}

Status SetUnknownParameters(std::string_view value, GatewayOptions* out) {
  if (value != "refuse" && value != "ignore") {
    return InvalidArgument("'" + std::string(value) + "' is unknown; want refuse or ignore");
  }
  out->unknown_parameters =
      value == "ignore" ? UnknownParameters::kIgnore : UnknownParameters::kRefuse;
  return OkStatus();
}

Status SetToolParser(std::string_view value, GatewayOptions* out) {
  if (value == "auto") return OkStatus();
  out->tool_format = ParseToolFormat(value);
  if (out->tool_format) return OkStatus();
  return InvalidArgument("'" + std::string(value) +
                         "' is unknown; want auto, none, hermes, glm, deepseek, kimi, harmony, "
                         "mistral, llama or llama4");
}

Status SetReasoningParser(std::string_view value, GatewayOptions* out) {
  if (value == "auto") return OkStatus();
  if (value != "think" && value != "none") {
    return InvalidArgument("'" + std::string(value) + "' is unknown; want auto, think or none");
  }
  out->reads_reasoning = value == "think";
  return OkStatus();
}

Status SetCorsOrigin(std::string_view value, GatewayOptions* out) {
  if (!IsOrigin(value)) {
    return InvalidArgument("'" + std::string(value) +
                           "' is not an origin; want a URL like https://ui.example, without a "
                           "path, or *. Add the port if it is not the default of the scheme");
  }
  out->service.cors.origins.emplace_back(value);
  return OkStatus();
}

Status SetListen(std::string_view value, GatewayOptions* out) {
  const size_t colon = value.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    return InvalidArgument("'" + std::string(value) + "' is not an address; want HOST:PORT");
  }
  std::string_view host = value.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  out->http.host = std::string(host);
  return Number(0, 65535, [](int64_t port, GatewayOptions* o) {
    o->http.port = static_cast<int>(port);
  })(value.substr(colon + 1), out);
}

const std::vector<Flag>& Flags() {
  static const auto* const flags = new std::vector<Flag>{
      {"listen", "HOST:PORT",
       "address for clients; port 0 picks a free port. Default: 127.0.0.1:8000", SetListen},
      {"model", "DIR", "checkpoint folder with tokenizer.json and config.json; required",
       Text(&GatewayOptions::model_dir)},
      {"model-name", "NAME", "name of the model in requests. Default: the folder's name",
       Text(&GatewayOptions::model_name)},
      {"model-alias", "NAME", "another name for the model in requests; may be repeated",
       [](std::string_view value, GatewayOptions* out) {
         if (value.empty()) return InvalidArgument("the name is empty; want a name for the model");
         out->model_aliases.emplace_back(value);
         return OkStatus();
       }},
      {"unknown-parameters", "refuse|ignore",
       "what to do with a request that has an unknown parameter. refuse: answer with status 400. "
       "ignore: name the parameter in the header X-Ignored-Parameters. Default: refuse",
       SetUnknownParameters},
      {"tool-parser", "FORMAT",
       "format in which the model writes tool calls: none, hermes, glm, deepseek, kimi, harmony, "
       "mistral, llama or "
       "llama4. Default: auto, found from its chat template",
       SetToolParser},
      {"reasoning-parser", "think|none",
       "think: the text in <think>...</think> of an answer, or harmony's analysis, becomes "
       "reasoning_content. Default: auto, which is think if the chat template has </think> or "
       "harmony's channels",
       SetReasoningParser},
      {"cors-origin", "ORIGIN",
       "let web pages of this origin call, for example https://ui.example; * lets all call; may be "
       "repeated. Default: none",
       SetCorsOrigin},
      {"chat-template", "FILE", "Jinja chat template that replaces the model's own",
       Text(&GatewayOptions::chat_template_file)},
      {"member", "ADDRESS",
       "gRPC address of an instance of the service (host:port or unix:/path). The gateway first "
       "asks it for the topology; {pool} becomes the number of a pool; may be repeated; required",
       [](std::string_view value, GatewayOptions* out) {
         out->members.emplace_back(value);
         return OkStatus();
       }},
      {"pools", "N",
       "the service may have pools 1 to N; the gateway uses all that it finds. Default: 1",
       Number(1, kMostPools, [](int64_t n, GatewayOptions* o) { o->pools = static_cast<int>(n); })},
      {"forget-pool-seconds", "N",
       "with several pools: a pool of which no member answers for this time is forgotten until one "
       "answers. Default: 30",
       Number(
           1, 86400,
           [](int64_t n, GatewayOptions* o) { o->forget_pool = Seconds(static_cast<double>(n)); })},
      {"service-uid", "UID", "UID of the service; the gateway sends it to the instances",
       Text(&GatewayOptions::service_uid)},
      {"trust", "FOLDER",
       "folder with tls.crt, tls.key and ca.crt for mutual TLS with the instances; the gateway "
       "reads them again when they change. Default: no TLS",
       Text(&GatewayOptions::trust)},
      {"api-keys-file", "FILE",
       "file with one key per line; clients must send one of them. Default: clients need no key",
       Text(&GatewayOptions::api_keys_file)},
      {"debug-logits-hash", nullptr, "let requests ask for hashes of the logits (logits_hash)",
       [](std::string_view, GatewayOptions* out) {
         out->debug_logits_hash = true;
         return OkStatus();
       }},
      {"queued-requests", "N",
       "most requests that wait for an instance; beyond it, a request gets status 429. Default: "
       "4096",
       Number(0, 1'000'000, [](int64_t n, GatewayOptions* o) { o->queued_requests = n; })},
      {"open-streams", "N",
       "most requests that are answered at once; beyond it, a request gets status 429. Default: "
       "4096",
       Number(1, 1'000'000,
              [](int64_t n, GatewayOptions* o) {
                o->service.open_streams = n;
                // Some connections are idle between requests, or only ask for /health.
                o->http.max_connections = static_cast<size_t>(n) + 1024;
              })},
      {"request-bytes", "N", "largest request body; a larger one gets status 413. Default: 4194304",
       Number(1, int64_t{1} << 30,
              [](int64_t n, GatewayOptions* o) {
                o->http.max_body_bytes = o->service.max_body_bytes = static_cast<size_t>(n);
              })},
      {"stream-buffer-bytes", "N",
       "most unsent bytes of one answer; beyond it, the gateway closes the connection. Default: "
       "1048576",
       Number(4096, int64_t{1} << 30,
              [](int64_t n, GatewayOptions* o) {
                o->http.max_unsent_bytes = static_cast<size_t>(n);
              })},
      {"memory-bytes", "N",
       "most memory for all clients: bodies, prompts, answers, unread output; beyond it, a request "
       "gets status 429. Default: a quarter of the free memory, from 64 MiB to 1 GiB",
       Number(1 << 20, int64_t{1} << 44,
              [](int64_t n, GatewayOptions* o) { o->memory_bytes = n; })},
      {"read-seconds", "N",
       "time limit for a request's headers, and again for its body; then status 408. Default: 30",
       Number(1, 86400,
              [](int64_t n, GatewayOptions* o) {
                o->http.read_deadline = Seconds(static_cast<double>(n));
              })},
      {"idle-seconds", "N",
       "time limit for the next request on a connection; then the gateway closes it. Default: 120",
       Number(1, 86400,
              [](int64_t n, GatewayOptions* o) {
                o->http.idle_deadline = Seconds(static_cast<double>(n));
              })},
      {"comment-seconds", "N",
       "a stream that is silent for this time sends a comment to stay open. Default: 5",
       Number(1, 86400,
              [](int64_t n, GatewayOptions* o) {
                o->service.deadlines.comment = Seconds(static_cast<double>(n));
              })},
      {"first-token-seconds", "N",
       "time limit from the queue to the first token; then status 504. Default: 600",
       Number(1, 86400,
              [](int64_t n, GatewayOptions* o) {
                o->service.deadlines.first_token = Seconds(static_cast<double>(n));
              })},
      {"hold-seconds", "N",
       "if no attention instance is left, requests wait this long for a new one; then status 503. "
       "Default: 60",
       Number(0, 86400,
              [](int64_t n, GatewayOptions* o) { o->hold = Seconds(static_cast<double>(n)); })},
      {"stall-seconds", "N",
       "time limit between two tokens; then the answer ends with an error. Default: 120",
       Number(1, 86400,
              [](int64_t n, GatewayOptions* o) {
                o->service.deadlines.stall = Seconds(static_cast<double>(n));
              })},
      {"lame-duck-seconds", "N",
       "after SIGTERM, accept requests for this time, until senders know that the gateway stops. "
       "Default: 0",
       Number(
           0, 86400,
           [](int64_t n, GatewayOptions* o) { o->lame_duck = Seconds(static_cast<double>(n)); })},
      {"drain-seconds", "N",
       "after that, time limit for the answers that are not complete. Default: 30",
       Number(0, 86400,
              [](int64_t n, GatewayOptions* o) {
                o->drain_deadline = Seconds(static_cast<double>(n));
              })},
      {"threads", "N", "number of I/O threads. Default: 2",
       Number(1, 64, [](int64_t n, GatewayOptions* o) { o->http.threads = static_cast<int>(n); })},
      {"tokenizer-threads", "N", "number of threads that parse and tokenize requests. Default: 2",
       Number(1, 64,
              [](int64_t n, GatewayOptions* o) { o->tokenizer_threads = static_cast<int>(n); })},
      {"help", nullptr, "print this text",
       [](std::string_view, GatewayOptions* out) {
         out->help = true;
         return OkStatus();
       }},
  };
  return *flags;
}

const Flag* FindFlag(std::string_view name) {
  for (const Flag& flag : Flags()) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

}  // namespace

Result<GatewayOptions> ParseGatewayOptions(std::span<const std::string_view> args) {
  GatewayOptions out;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string_view arg = args[i];
    const size_t equals = arg.find('=');
    const std::string_view name =
        arg.starts_with("--") ? arg.substr(2, equals == arg.npos ? arg.npos : equals - 2) : "";
    const Flag* flag = FindFlag(name);
    if (flag == nullptr) {
      return InvalidArgument("unknown argument '" + std::string(arg) +
                             "'; see janus-gateway --help");
    }
    std::string_view value;
    if (equals != arg.npos) {
      if (flag->value == nullptr) {
        return InvalidArgument("--" + std::string(name) + " takes no value");
      }
      value = arg.substr(equals + 1);
    } else if (flag->value != nullptr) {
      if (++i == args.size()) {
        return InvalidArgument("--" + std::string(name) + " needs a value: " + flag->value);
      }
      value = args[i];
    }
    if (Status set = flag->set(value, &out); !set.ok()) {
      return std::move(set).Annotate("--" + std::string(name));
    }
  }
  if (out.help) return out;
  if (out.model_dir.empty())
    return InvalidArgument("--model DIR is missing; see janus-gateway --help");
  if (out.members.empty())
    return InvalidArgument("--member ADDRESS is missing; see janus-gateway --help");
  if (out.pools > 1 && std::ranges::none_of(out.members, [](const std::string& member) {
        return member.find(kPoolMark) != std::string::npos;
      })) {
    return InvalidArgument("--pools " + std::to_string(out.pools) +
                           ": no --member has {pool}, so all pools would be sought at the same "
                           "addresses; want an address as in unix:/run/members-{pool}");
  }
  if (out.model_name.empty()) {
    std::string_view dir = out.model_dir;
    while (dir.size() > 1 && dir.ends_with('/')) dir.remove_suffix(1);
    out.model_name = std::string(dir.substr(dir.rfind('/') + 1));
  }
  return out;
}

int64_t DefaultMemoryBytes(int64_t available_bytes, size_t max_body_bytes) {
  constexpr int64_t kLeast = int64_t{64} << 20, kMost = int64_t{1} << 30;
  const int64_t share = std::clamp(available_bytes / 4, kLeast, kMost);
  return std::max(share, 4 * static_cast<int64_t>(max_body_bytes));
}

Status CheckMemoryBytes(int64_t memory_bytes, size_t max_body_bytes) {
  if (static_cast<int64_t>(max_body_bytes) <= memory_bytes / 4 * 3) return OkStatus();
  return InvalidArgument(
      "--memory-bytes " + std::to_string(memory_bytes) +
      ": requests may use three quarters of this memory, and a body of --request-bytes " +
      std::to_string(max_body_bytes) + " would never fit; want at least " +
      std::to_string(4 * static_cast<int64_t>(max_body_bytes)));
}

std::string GatewayHelp() {
  std::ostringstream out;
  out << "janus-gateway serves the OpenAI API, in front of the attention instances of a "
         "service.\n\n";
  for (const Flag& flag : Flags()) {
    out << "  --" << flag.name << (flag.value ? std::string(" ") + flag.value : "") << "\n      "
        << flag.help << "\n";
  }
  return out.str();
}

Result<std::vector<std::string>> ReadApiKeys(const std::string& path) {
  JANUS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::vector<std::string> keys;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty() && !line.starts_with('#')) keys.push_back(line);
  }
  // An empty file must not admit every caller.
  if (keys.empty()) return InvalidArgument(path + ": has no key; want one key per line");
  return keys;
}

}  // namespace janus::gateway
