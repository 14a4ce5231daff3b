#include "operator/program/check.h"

#include <httplib.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <utility>

#include "operator/api/json.h"
#include "operator/kube/object.h"

namespace janus::control {
namespace {

constexpr int kConnectSeconds = 10;
// A gateway holds a request while workers are replaced.
constexpr int kAnswerSeconds = 120;
constexpr size_t kShown = 300;

// The body of the answer. `what`: the call, for errors.
Result<std::string> BodyOf(const httplib::Result& answer, const std::string& what) {
  if (!answer) return Unavailable(what + ": " + httplib::to_string(answer.error()));
  if (answer->status != 200) {
    return Unavailable(what + ": status " + std::to_string(answer->status) + ": " +
                       answer->body.substr(0, kShown));
  }
  return answer->body;
}

httplib::Client ClientOf(const std::string& url) {
  httplib::Client client(url);
  client.set_connection_timeout(kConnectSeconds);
  client.set_read_timeout(kAnswerSeconds);
  return client;
}

// A text of the first item of the list `list`; empty: there is none.
std::string TextOfFirst(const Node& object, std::string_view list, std::string_view name) {
  const Node* const found = object.Find(list);
  if (found == nullptr || found->items.empty()) return "";
  return std::string(TextAt(found->items.front(), {name}));
}

}  // namespace

Result<std::string> CheckOperator(const std::string& url) {
  httplib::Client client = ClientOf(url);
  JANUS_ASSIGN_OR_RETURN(const std::string body,
                         BodyOf(client.Get("/readyz"), "GET " + url + "/readyz"));
  return url + " is ready: " + body.substr(0, body.find('\n'));
}

Result<std::string> CheckGateway(const std::string& url) {
  httplib::Client client = ClientOf(url);
  const std::string models_call = "GET " + url + "/v1/models";
  JANUS_ASSIGN_OR_RETURN(const std::string models, BodyOf(client.Get("/v1/models"), models_call));
  JANUS_ASSIGN_OR_RETURN(const Node list, ParseJson(models, models_call));
  const std::string model = TextOfFirst(list, "data", "id");
  if (model.empty()) return Unavailable(models_call + ": no model: " + models.substr(0, kShown));

  const std::string tokens_call = "POST " + url + "/v1/completions";
  Node request = Node::Map();
  request.Add("model", Node::String(model));
  request.Add("prompt", Node::String("Once upon a time"));
  request.Add("max_tokens", Node::Integer(8));
  JANUS_ASSIGN_OR_RETURN(
      const std::string answered,
      BodyOf(client.Post("/v1/completions", WriteJson(request), "application/json"), tokens_call));
  JANUS_ASSIGN_OR_RETURN(const Node answer, ParseJson(answered, tokens_call));
  const int64_t tokens = IntegerAt(answer, {"usage", "completion_tokens"}).value_or(0);
  if (tokens < 1) {
    return Unavailable(tokens_call + ": no tokens: " + answered.substr(0, kShown));
  }
  return url + " answered with " + std::to_string(tokens) + " tokens of " + model +
         ": Once upon a time" + TextOfFirst(answer, "choices", "text");
}

int RunCheck(int argc, const char* const* argv) {
  std::string operator_url;
  std::string gateway_url;
  CLI::App app{
      "janus-operator check asks an operator whether it is ready, or a service for a few tokens.",
      "janus-operator check"};
  app.add_option("--operator", operator_url, "http://HOST:PORT of an operator's /readyz");
  app.add_option("--gateway", gateway_url, "http://HOST:PORT of a MoEService");
  app.require_option(1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const Result<std::string> answer =
      operator_url.empty() ? CheckGateway(gateway_url) : CheckOperator(operator_url);
  if (!answer.ok()) {
    std::fprintf(stderr, "janus-operator check: %s\n", answer.status().message().c_str());
    return 1;
  }
  std::printf("%s\n", answer->c_str());
  return 0;
}

}  // namespace janus::control
