#include "cli/explain/records_source.h"

#include <charconv>
#include <memory>
#include <optional>
#include <utility>

#include "cli/objects/running_services.h"
#include "operator/api/json.h"
#include "operator/kube/transport.h"
#include "operator/local/environment.h"

namespace janus::cli {
namespace {

const control::CallLimits kLimits{Seconds(10), {}};

const control::Timeline& Time() {
  static const auto* const timeline = new control::SystemTimeline();
  return *timeline;
}

class RecordsClient {
 public:
  RecordsClient(std::string origin, std::string host, int port) : origin_(std::move(origin)) {
    control::ClusterConfig config;
    config.origin = origin_;
    config.host = std::move(host);
    config.port = port;
    config.use_tls = false;
    control::TransportOptions options;
    options.user_agent = "janusctl";
    options.retry.max_attempts = 1;
    transport_ = std::make_unique<control::HttpTransport>(std::move(config), options, Time());
  }

  Result<std::string> Read(const std::string& path) {
    control::HttpRequest request;
    request.method = "GET";
    request.target = path;
    request.headers = {{"Accept", "application/json"}};
    auto reply = transport_->Call(request, control::Repeat::kHarmless, kLimits);
    if (reply.ok()) return std::move(reply->body);
    const control::ApiError& error = reply.error();
    if (error.http_status == 0) {
      return Unavailable(origin_ + " does not answer: " + error.message);
    }
    return error.code == StatusCode::kNotFound ? NotFound(error.message)
                                               : Unavailable(origin_ + ": " + error.message);
  }

 private:
  const std::string origin_;
  std::unique_ptr<control::HttpTransport> transport_;
};

// "http://HOST:PORT" or "HOST:PORT".
Result<RecordsClient> ClientOf(const std::string& server) {
  std::string_view rest = server;
  constexpr std::string_view kScheme = "http://";
  if (rest.starts_with(kScheme)) rest.remove_prefix(kScheme.size());
  while (rest.ends_with('/')) rest.remove_suffix(1);
  const size_t colon = rest.rfind(':');
  int port = 0;
  if (colon != std::string_view::npos && colon > 0) {
    const char* const end = rest.data() + rest.size();
    const auto [at, error] = std::from_chars(rest.data() + colon + 1, end, port);
    if (error == std::errc() && at == end && port > 0 && port < 65'536) {
      return RecordsClient(server, std::string(rest.substr(0, colon)), port);
    }
  }
  return InvalidArgument("--server: is '" + server + "'; want http://HOST:PORT");
}

// What is recorded of services, in a tree of pages of its own.
struct Kind {
  const char* root;
  const char* what;
  const char* needs;
};
constexpr Kind kDecisions = {"/v1/services", "no decisions",
                             "a service needs spec.slo.tpot and one interval of traffic; its "
                             "condition ScalingReady says what it waits for"};
constexpr Kind kSteps = {
    "/v1/steps", "no steps",
    "a service needs requests; each sixteenth step is kept, and shown some seconds later"};

Result<std::vector<control::ObjectKey>> ServicesOf(RecordsClient& client, const Kind& kind) {
  JANUS_ASSIGN_OR_RETURN(const std::string text, client.Read(kind.root));
  JANUS_ASSIGN_OR_RETURN(const control::Node list, control::ParseJson(text, kind.root));
  std::vector<control::ObjectKey> out;
  const control::Node* const services = list.Find("services");
  if (services == nullptr) return out;
  for (const control::Node& one : services->items) {
    out.push_back({std::string(control::TextAt(one, {"namespace"})),
                   std::string(control::TextAt(one, {"name"}))});
  }
  return out;
}

Result<RecordsOf> ReadPage(RecordsClient& client, const Kind& kind, const control::ObjectKey& key,
                           const std::string& page) {
  JANUS_ASSIGN_OR_RETURN(std::string text, client.Read(std::string(kind.root) + "/" +
                                                       key.namespace_ + "/" + key.name + page));
  return RecordsOf{key, std::move(text)};
}

bool IsMeant(const control::ObjectKey& key, const std::string& name) {
  return name.empty() || name == key.name || name == key.ToString();
}

Result<control::ObjectKey> ChooseService(const std::vector<control::ObjectKey>& all,
                                         const Kind& kind, const std::string& name) {
  std::string names;
  std::vector<control::ObjectKey> meant;
  for (const control::ObjectKey& key : all) {
    names += (names.empty() ? "" : ", ") + key.ToString();
    if (IsMeant(key, name)) meant.push_back(key);
  }
  if (meant.size() == 1) return meant[0];
  if (meant.size() > 1) return InvalidArgument("several services are there; name one: " + names);
  const std::string what = kind.what;
  return NotFound((name.empty() ? what + " are recorded there yet"
                                : what + " of '" + name + "' are recorded there yet" +
                                      (names.empty() ? "" : "; there are those of " + names)) +
                  ": " + kind.needs);
}

Result<RecordsOf> ReadOne(const RecordsSource& source, const Kind& kind, const std::string& page) {
  if (!source.server.empty()) {
    JANUS_ASSIGN_OR_RETURN(RecordsClient client, ClientOf(source.server));
    const auto services = ServicesOf(client, kind);
    if (services.status().code() == StatusCode::kUnavailable) {
      return Unavailable(services.status().message() +
                         "; forward the port of the operator that leads: kubectl -n NAMESPACE "
                         "port-forward POD 8082");
    }
    JANUS_RETURN_IF_ERROR(services.status());
    JANUS_ASSIGN_OR_RETURN(const control::ObjectKey key,
                           ChooseService(*services, kind, source.service));
    return ReadPage(client, kind, key, page);
  }
  const control::Environment environment = control::ReadEnvironment();
  JANUS_ASSIGN_OR_RETURN(const RunningService service,
                         FindRunningService(environment, Time(), source.service));
  RecordsClient client(service.socket, std::string(control::kUnixHost) + service.socket, 80);
  return ReadPage(client, kind, service.key, page);
}

}  // namespace

Result<RecordsOf> ReadRecords(const RecordsSource& source, const std::string& page) {
  return ReadOne(source, kDecisions, page);
}

Result<RecordsOf> ReadStep(const RecordsSource& source, int pool) {
  return ReadOne(source, kSteps, pool > 0 ? "/pools/" + std::to_string(pool) : "");
}

Result<std::vector<RecordsOf>> ReadAllRecords(const RecordsSource& source) {
  std::vector<RecordsOf> out;
  const auto take = [&](RecordsClient& client) -> Status {
    JANUS_ASSIGN_OR_RETURN(const std::vector<control::ObjectKey> all,
                           ServicesOf(client, kDecisions));
    for (const control::ObjectKey& key : all) {
      if (!IsMeant(key, source.service)) continue;
      JANUS_ASSIGN_OR_RETURN(RecordsOf one, ReadPage(client, kDecisions, key, ""));
      out.push_back(std::move(one));
    }
    return OkStatus();
  };
  if (!source.server.empty()) {
    JANUS_ASSIGN_OR_RETURN(RecordsClient client, ClientOf(source.server));
    JANUS_RETURN_IF_ERROR(take(client));
    return out;
  }
  const std::vector<RunningService> running =
      FindRunningServices(control::ReadEnvironment(), Time());
  if (running.empty()) return NoServiceRuns();
  for (const RunningService& service : running) {
    RecordsClient client(service.socket, std::string(control::kUnixHost) + service.socket, 80);
    JANUS_RETURN_IF_ERROR(take(client));
  }
  return out;
}

}  // namespace janus::cli
