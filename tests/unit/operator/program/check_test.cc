#include "operator/program/check.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <string>
#include <thread>

namespace janus::control {
namespace {

// A server on this machine. Add handlers first, then call Start.
class Server {
 public:
  ~Server() { pages.stop(); }

  // Returns its URL.
  std::string Start() {
    const int port = pages.bind_to_any_port("127.0.0.1");
    thread_ = std::jthread([this] { pages.listen_after_bind(); });
    while (!pages.is_running()) std::this_thread::yield();  // stopping it earlier has no effect
    return "http://127.0.0.1:" + std::to_string(port);
  }

  httplib::Server pages;

 private:
  std::jthread thread_;  // last: ends first
};

// Calls CheckGateway on a gateway with these answers. In the result and in `asked`, the body of the
// request for tokens, its address is URL.
Result<std::string> CheckOf(const std::string& models, int status, const std::string& completion,
                            std::string* asked = nullptr) {
  Server server;
  server.pages.Get("/v1/models", [&](const httplib::Request&, httplib::Response& to) {
    to.set_content(models, "application/json");
  });
  server.pages.Post("/v1/completions", [&](const httplib::Request& request, httplib::Response& to) {
    if (asked != nullptr) *asked = request.body;
    to.status = status;
    to.set_content(completion, "application/json");
  });
  const std::string url = server.Start();
  const auto without_url = [&](std::string text) {
    const size_t at = text.find(url);
    return at == std::string::npos ? text : text.replace(at, url.size(), "URL");
  };
  const Result<std::string> answer = CheckGateway(url);
  if (answer.ok()) return without_url(*answer);
  return Status(answer.status().code(), without_url(answer.status().message()));
}

constexpr const char* kModels = R"({"object":"list","data":[{"id":"demo-model"}]})";

TEST(Check, ShowsTheTokensOfTheGatewaysModel) {
  std::string asked;
  const Result<std::string> answer =
      CheckOf(kModels, 200,
              R"({"choices":[{"text":", there was"}],"usage":{"completion_tokens":3}})", &asked);
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(*answer, "URL answered with 3 tokens of demo-model: Once upon a time, there was");
  EXPECT_EQ(asked, R"({"model":"demo-model","prompt":"Once upon a time","max_tokens":8})");
}

TEST(Check, SaysWhatAGatewayDidNotAnswer) {
  EXPECT_EQ(CheckOf(R"({"data":[]})", 200, "").status(),
            Unavailable(R"(GET URL/v1/models: no model: {"data":[]})"));
  EXPECT_EQ(CheckOf(kModels, 503, "full").status(),
            Unavailable("POST URL/v1/completions: status 503: full"));
  EXPECT_EQ(
      CheckOf(kModels, 200, R"({"usage":{"completion_tokens":0}})").status(),
      Unavailable(R"(POST URL/v1/completions: no tokens: {"usage":{"completion_tokens":0}})"));
  EXPECT_EQ(CheckOf(kModels, 200, "{}").status(),
            Unavailable("POST URL/v1/completions: no tokens: {}"));
  EXPECT_EQ(CheckOf("<html>", 200, "").status().code(), StatusCode::kInvalidArgument);
}

TEST(Check, SaysWhyAnOperatorIsNotReady) {
  for (const bool ready : {false, true}) {
    Server server;
    server.pages.Get("/readyz", [&](const httplib::Request&, httplib::Response& to) {
      to.status = ready ? 200 : 503;
      to.set_content(ready ? "ok\n" : "no list of pods yet\n", "text/plain");
    });
    const std::string url = server.Start();
    const Result<std::string> answer = CheckOperator(url);
    if (ready) {
      EXPECT_EQ(*answer, url + " is ready: ok");
    } else {
      EXPECT_EQ(answer.status(),
                Unavailable("GET " + url + "/readyz: status 503: no list of pods yet\n"));
    }
  }
}

TEST(Check, FailsWithoutAnAnswer) {
  std::string url;
  {
    Server server;
    url = server.Start();
  }
  EXPECT_EQ(CheckOperator(url).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(CheckGateway(url).status().code(), StatusCode::kUnavailable);
}

TEST(Check, WantsOneFlag) {
  const char* const none[] = {"janus-operator check"};
  EXPECT_EQ(RunCheck(1, none), 2);
  const char* const both[] = {"janus-operator check", "--operator=http://127.0.0.1:1",
                              "--gateway=http://127.0.0.1:1"};
  EXPECT_EQ(RunCheck(3, both), 2);
}

}  // namespace
}  // namespace janus::control
