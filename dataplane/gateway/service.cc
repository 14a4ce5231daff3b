#include "dataplane/gateway/service.h"

#include <cstdio>
#include <string_view>

#include "common/exposition/metrics_text.h"
#include "dataplane/gateway/tokenize.h"
#include "dataplane/gateway/trace_ids.h"

namespace janus::gateway {

namespace {

constexpr std::string_view kModels = "/v1/models";
constexpr std::string_view kCountTokens = "/v1/messages/count_tokens";

struct Route {
  std::string_view path;
  std::string_view method;
};
constexpr Route kRoutes[] = {
    {"/v1/chat/completions", "POST"},
    {"/v1/completions", "POST"},
    {"/v1/messages", "POST"},
    {kCountTokens, "POST"},
    {"/v1/responses", "POST"},
    {kModels, "GET"},
    {"/tokenize", "POST"},
    {"/detokenize", "POST"},
    {"/health", "GET"},
    {"/metrics", "GET"},
};

const Route* FindRoute(std::string_view path) {
  if (path.starts_with("/v1/models/")) path = kModels;
  for (const Route& route : kRoutes) {
    if (route.path == path) return &route;
  }
  return nullptr;
}

// Of the endpoints that answer with tokens.
Endpoint EndpointOf(std::string_view path) {
  if (path == "/v1/completions") return Endpoint::kCompletions;
  if (path == "/v1/messages") return Endpoint::kMessages;
  return path == "/v1/responses" ? Endpoint::kResponses : Endpoint::kChat;
}

// Takes the same time for a wrong key as for a right one.
bool EqualInConstantTime(std::string_view a, std::string_view b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i] ^ (b.empty() ? 0 : b[i % b.size()]));
  }
  return difference == 0;
}

std::vector<std::string> ModelNames(const ServedModel& model) {
  std::vector<std::string> names = {model.name};
  names.insert(names.end(), model.aliases.begin(), model.aliases.end());
  return names;
}

std::string PathText(std::string_view path) {
  std::string out;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '%' && i + 2 < path.size() && digit(path[i + 1]) >= 0 &&
        digit(path[i + 2]) >= 0) {
      out += static_cast<char>(digit(path[i + 1]) * 16 + digit(path[i + 2]));
      i += 2;
    } else {
      out += path[i];
    }
  }
  return out;
}

}  // namespace

GatewayService::GatewayService(ServiceOptions options, const ServedModel& model,
                               AttentionPool& pool, TextWorkers& workers,
                               const MetricRegistry& registry, GatewayMetrics& metrics,
                               const Clock& clock)
    : options_(std::move(options)),
      model_(model),
      pool_(pool),
      workers_(workers),
      registry_(registry),
      metrics_(metrics),
      clock_(clock),
      started_unix_seconds_(
          std::chrono::duration_cast<std::chrono::seconds>(clock.WallNow().time_since_epoch())
              .count()),
      calls_{.model = model,
             .pool = pool,
             .metrics = metrics,
             .clock = clock,
             .deadlines = options_.deadlines} {
  std::random_device device;
  std::seed_seq seed{device(), device(), device(), device()};
  MutexLock lock(mu_);
  random_.seed(seed);
  calls_.id_salt = random_();
}

bool GatewayService::IsAuthorized(const HttpHead& head) const {
  if (options_.api_keys.empty()) return true;
  constexpr std::string_view kBearer = "Bearer ";
  std::string_view key = head.api_key;
  if (head.authorization.starts_with(kBearer)) {
    key = std::string_view(head.authorization).substr(kBearer.size());
  }
  bool known = false;
  for (const std::string& allowed : options_.api_keys) known |= EqualInConstantTime(allowed, key);
  return known;
}

HttpHeaders GatewayService::AnswerHeaders(HttpHead& head) {
  if (!IsRequestId(head.request_id)) head.request_id = NewRequestId();
  if (!IsTraceParent(head.traceparent)) head.traceparent.clear();
  HttpHeaders out = CorsHeaders(options_.cors, head);
  out.emplace_back("X-Request-Id", head.request_id);
  // Anthropic's clients read it under this name.
  if (ErrorFormOf(head.path) == ErrorForm::kAnthropic) {
    out.emplace_back("request-id", head.request_id);
  }
  return out;
}

std::optional<HttpReply> GatewayService::JudgeHead(const HttpHead& head) {
  if (std::optional<HttpReply> preflight = AnswerPreflight(options_.cors, head)) return preflight;
  const Route* route = FindRoute(head.path);
  const auto refuse = [&](const RequestError& error) {
    metrics_.refused.Add();
    return ToReply(error, ErrorFormOf(head.path));
  };
  if (route == nullptr) {
    return refuse({404, "invalid_request_error", "not_found", "",
                   "there is no " + head.path +
                       "; see /v1/chat/completions, /v1/completions, /v1/responses, "
                       "/v1/messages, /v1/models, /tokenize, /detokenize, /health, /metrics"});
  }
  const bool get = route->method == "GET";
  if (head.method != route->method && !(get && head.method == "HEAD")) {
    HttpReply reply =
        refuse({405, "invalid_request_error", "method_not_allowed", "",
                head.path + " takes " + std::string(route->method) + ", not " + head.method});
    reply.headers.emplace_back("Allow", std::string(route->method));
    return reply;
  }
  const bool is_open = head.path == "/health" || head.path == "/metrics";
  if (!is_open && !IsAuthorized(head)) {
    HttpReply reply =
        refuse({401, "authentication_error", "invalid_api_key", "",
                head.authorization.empty() && head.api_key.empty()
                    ? "an API key is needed: Authorization: Bearer KEY, or x-api-key: KEY"
                    : "the API key is not known"});
    reply.headers.emplace_back("WWW-Authenticate", "Bearer");
    return reply;
  }
  if (!ParseContentCoding(head.content_encoding)) {
    HttpReply reply =
        refuse({415, "invalid_request_error", "unsupported_encoding", "",
                "Content-Encoding '" + head.content_encoding + "' is not taken; send one of " +
                    std::string(kAcceptedCodings) + ", or the body as it is"});
    reply.headers.emplace_back("Accept-Encoding", std::string(kAcceptedCodings));
    return reply;
  }
  return std::nullopt;
}

HttpReply GatewayService::Refusal(std::string_view path, int status, std::string message) {
  const ErrorForm form = ErrorFormOf(path);
  if (status == 429) {
    metrics_.shed.Add();
    return ToReply(Overloaded(std::move(message), pool_.RetryAfterSeconds()), form);
  }
  if (status == 503) {
    metrics_.failed.Add();
    return ToReply(NoWorkers(std::move(message)), form);
  }
  metrics_.refused.Add();
  return ToReply({status, "invalid_request_error",
                  status == 413   ? "request_too_large"
                  : status == 431 ? "headers_too_large"
                  : status == 408 ? "timeout"
                                  : "malformed_request",
                  "", std::move(message)},
                 form);
}

void GatewayService::Handle(std::shared_ptr<HttpExchange> exchange, HttpHead head, std::string body,
                            MemoryLease memory) {
  const Route* route = FindRoute(head.path);
  if (route != nullptr && route->method == "POST") {
    Body read{
        .bytes = std::move(body),
        .coding = ParseContentCoding(head.content_encoding).value_or(ContentCoding::kIdentity),
        .request_id = std::move(head.request_id),
        .traceparent = std::move(head.traceparent),
        .errors = ErrorFormOf(head.path)};
    if (head.path == "/tokenize") {
      return AnswerText(std::move(exchange), std::move(read), std::move(memory),
                        [this](const std::string& text) {
                          return Tokenize(model_, pool_.MaxContextTokens(), text, clock_.WallNow());
                        });
    }
    if (head.path == "/detokenize") {
      return AnswerText(std::move(exchange), std::move(read), std::move(memory),
                        [this](const std::string& text) { return Detokenize(model_, text); });
    }
    if (head.path == kCountTokens) {
      return AnswerText(
          std::move(exchange), std::move(read), std::move(memory),
          [this](const std::string& text) { return CountTokens(model_, text, clock_.WallNow()); });
    }
    return Complete(std::move(exchange), EndpointOf(head.path), std::move(read), std::move(memory));
  }
  if (head.path == "/metrics") {
    return exchange->Respond(
        {.content_type = kPrometheusContentType, .body = PrometheusText(registry_.Collect())});
  }
  if (head.path == "/health") {
    // Healthy while requests are held. If unhealthy, the gateway would lose its place in its
    // Kubernetes Service, and clients' requests would be refused instead of held.
    const bool takes_requests = pool_.AdmitsRequests();
    const char* state = leaving_              ? "draining"
                        : pool_.HasInstance() ? "ok"
                        : takes_requests      ? "holding"
                                              : "no attention instance is attached";
    return exchange->Respond({.status = !leaving_ && takes_requests ? 200 : 503,
                              .body = std::string("{\"status\":\"") + state + "\"}"});
  }
  if (head.path == kModels) {
    return exchange->Respond({.body = ModelListJson(ModelNames(model_), started_unix_seconds_,
                                                    pool_.MaxContextTokens())});
  }
  const std::string name = PathText(std::string_view(head.path).substr(kModels.size() + 1));
  if (!model_.IsCalled(name)) {
    metrics_.refused.Add();
    return exchange->Respond(ToReply(NoSuchModel(model_, name), ErrorForm::kOpenAi));
  }
  exchange->Respond({.body = ModelJson(name, started_unix_seconds_, pool_.MaxContextTokens())});
}

std::string GatewayService::NewRequestId() {
  char name[24];
  std::snprintf(name, sizeof(name), "req-%016llx",
                static_cast<unsigned long long>(calls_.id_salt ^ requests_.fetch_add(1)));
  return name;
}

uint64_t GatewayService::DrawSeed() {
  MutexLock lock(mu_);
  return random_();
}

bool GatewayService::HoldDecoded(const Body& body, MemoryLease& memory) const {
  return body.coding == ContentCoding::kIdentity ||
         memory.TrySet(memory.bytes() + static_cast<int64_t>(options_.max_body_bytes),
                       MemoryBudget::Use::kRequest);
}

RequestError GatewayService::NoRoomForDecoded() const {
  metrics_.memory_refused.Add();
  return Overloaded("no memory is free for a compressed body, which may decode to " +
                        std::to_string(options_.max_body_bytes) + " bytes",
                    pool_.RetryAfterSeconds());
}

RequestResult<std::string> GatewayService::Decoded(const Body& body) const {
  Result<std::string> decoded = Decode(body.coding, body.bytes, options_.max_body_bytes);
  if (decoded.ok()) return *std::move(decoded);
  const bool is_large = decoded.status().code() == StatusCode::kResourceExhausted;
  return RequestError{is_large ? 413 : 400, "invalid_request_error",
                      is_large ? "request_too_large" : "malformed_request", "",
                      decoded.status().message()};
}

RequestResult<PreparedRequest> GatewayService::Prepared(Endpoint endpoint, const Body& body,
                                                        const PrepareBounds& bounds) {
  RequestResult<std::string> decoded = Decoded(body);
  if (auto* error = std::get_if<RequestError>(&decoded)) return std::move(*error);
  return Prepare(model_, bounds, endpoint, std::get<std::string>(decoded), DrawSeed(),
                 clock_.WallNow());
}

void GatewayService::AnswerText(
    std::shared_ptr<HttpExchange> exchange, Body body, MemoryLease memory,
    std::function<RequestResult<std::string>(const std::string&)> work) {
  const auto respond = [this, form = body.errors](HttpExchange& on,
                                                  const RequestResult<std::string>& result) {
    if (const auto* text = std::get_if<std::string>(&result)) return on.Respond({.body = *text});
    metrics_.refused.Add();
    on.Respond(ToReply(std::get<RequestError>(result), form));
  };
  if (!HoldDecoded(body, memory)) return respond(*exchange, NoRoomForDecoded());
  // Shared, because the work must be copyable; held until the answer is made.
  const auto held = std::make_shared<MemoryLease>(std::move(memory));
  const Status pushed = workers_.TryPush([=, this, body = std::move(body)] {
    RequestResult<std::string> decoded = Decoded(body);
    const auto* text = std::get_if<std::string>(&decoded);
    const auto result =
        std::make_shared<RequestResult<std::string>>(text != nullptr ? work(*text) : decoded);
    exchange->Post([respond, exchange, result, held] { respond(*exchange, *result); });
  });
  if (!pushed.ok()) {
    respond(*exchange, Overloaded(pushed.message(), pool_.RetryAfterSeconds()));
  }
}

void GatewayService::Complete(std::shared_ptr<HttpExchange> exchange, Endpoint endpoint, Body body,
                              MemoryLease memory) {
  const bool has_room = HoldDecoded(body, memory);
  auto call = std::make_shared<Call>(calls_, std::move(exchange), std::move(memory), body.errors);
  call->Begin();
  if (!has_room) return call->Refuse(NoRoomForDecoded());
  // Another gateway gets it, and counts it.
  if (draining_) return call->Refuse(NoWorkers("the gateway is draining"), false);
  if (calls_.open.load() > options_.open_streams) {
    return call->Refuse(Overloaded(
        std::to_string(options_.open_streams) + " requests are being answered, which is the limit",
        pool_.RetryAfterSeconds()));
  }
  // The bounds below come from the instances too.
  if (!pool_.AdmitsRequests()) return call->Refuse(NoWorkers("no attention instance is attached"));
  Status pushed = workers_.TryPush([this, call, endpoint, body = std::move(body)] {
    const PrepareBounds bounds{.max_context_tokens = pool_.MaxContextTokens(),
                               .vocabulary_size = pool_.VocabularySize(),
                               .routed_width = pool_.RoutedWidth()};
    // Shared, because the work must be copyable.
    const auto prepared =
        std::make_shared<RequestResult<PreparedRequest>>(Prepared(endpoint, body, bounds));
    if (auto* request = std::get_if<PreparedRequest>(prepared.get())) {
      for (GenerationRequest& generation : request->generations) {
        generation.client_request_id = body.request_id;
        generation.traceparent = body.traceparent;
      }
    }
    call->exchange().Post([call, prepared, bounds] {
      if (bounds.max_context_tokens == 0) {  // all instances were lost meanwhile
        return call->Refuse(NoWorkers("no attention instance is attached"));
      }
      if (const auto* error = std::get_if<RequestError>(prepared.get()))
        return call->Refuse(*error);
      call->Answer(std::move(std::get<PreparedRequest>(*prepared)));
    });
  });
  if (!pushed.ok()) call->Refuse(Overloaded(pushed.message(), pool_.RetryAfterSeconds()));
}

}  // namespace janus::gateway
