#include "cli/load/runner.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/fingerprint.h"
#include "common/mutex.h"
#include "tests/support/time_scale.h"

namespace janus::cli {
namespace {

std::string Event(const std::string& json) {
  return "data: " + json + "\n\n";
}

// A server that answers every completion with scripted events. Its listen backlog is the library's
// 5: tests open fewer connections at a time.
class ScriptedServer {
 public:
  ScriptedServer() {
    // A connection that is kept open holds its thread.
    server_.new_task_queue = [] { return new httplib::ThreadPool(8); };
    server_.Get("/v1/models", [this](const httplib::Request& request, httplib::Response& response) {
      if (!key.empty() && request.get_header_value("Authorization") != "Bearer " + key) {
        response.status = 401;
        return;
      }
      if (status == 503) {
        response.status = status;
        response.set_content(R"({"error":{"message":"no instance yet"}})", "application/json");
        return;
      }
      response.set_content(R"({"object":"list","data":[{"id":"demo"}]})", "application/json");
    });
    server_.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      const size_t at = std::min(scrapes_++, metrics.size() - 1);
      response.set_content(metrics.at(at), "text/plain");
    });
    server_.Post(
        "/v1/completions", [this](const httplib::Request& request, httplib::Response& response) {
          {
            MutexLock lock(mu_);
            bodies_.push_back(request.body);
            changed_.NotifyAll();
            while (held_) changed_.Wait(mu_);
          }
          if (status != 200) {
            response.status = status;
            response.set_content(R"({"error":{"message":"queue full"}})", "application/json");
            return;
          }
          response.set_chunked_content_provider("text/event-stream",
                                                [this](size_t, httplib::DataSink& sink) {
                                                  for (const std::string& event : events)
                                                    sink.write(event.data(), event.size());
                                                  sink.done();
                                                  return true;
                                                });
        });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::jthread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~ScriptedServer() {
    Release();
    server_.stop();
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  void Hold() {
    MutexLock lock(mu_);
    held_ = true;
  }
  void Release() {
    MutexLock lock(mu_);
    held_ = false;
    changed_.NotifyAll();
  }
  std::vector<std::string> bodies() {
    MutexLock lock(mu_);
    return bodies_;
  }

  std::vector<std::string> metrics = {""};  // of each scrape; then the last one again
  std::vector<std::string> events = {
      Event(R"({"choices":[{"text":"a","finish_reason":null}]})"),
      Event(R"({"choices":[{"text":"b","finish_reason":null}]})"),
      Event(R"({"choices":[{"text":"","finish_reason":"length"}]})"),
      Event(R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}})"),
      "data: [DONE]\n\n"};
  int status = 200;
  std::string key;  // required, unless empty

 private:
  size_t scrapes_ = 0;
  httplib::Server server_;
  int port_ = 0;
  Mutex mu_;
  CondVar changed_;
  bool held_ JANUS_GUARDED_BY(mu_) = false;
  std::vector<std::string> bodies_ JANUS_GUARDED_BY(mu_);
  std::jthread thread_;
};

class RunLoadTest : public testing::Test {
 protected:
  LoadSummary Run(const std::vector<Arrival>& arrivals, int max_concurrency = 4) {
    LoadOptions options;
    options.url = server_.url();
    options.timeout = Scaled(Seconds(10));
    options.max_concurrency = max_concurrency;
    options.time_scale = 1000;
    Result<LoadSummary> summary = RunLoad(
        options, arrivals, [&](const RequestOutcome& outcome) { outcomes_.push_back(outcome); },
        [&] {
          if (on_stop_question_) on_stop_question_();
          return stop_.load();
        });
    EXPECT_TRUE(summary.ok()) << summary.status().ToString();
    return summary.ok() ? *std::move(summary) : LoadSummary();
  }

  ScriptedServer server_;
  std::vector<RequestOutcome> outcomes_;
  std::atomic<bool> stop_ = false;
  std::function<void()> on_stop_question_;
};

TEST_F(RunLoadTest, SendsEveryArrivalAndReadsItsStream) {
  const LoadSummary summary = Run(PoissonArrivals(100, 4, 3, 2, 1));
  EXPECT_EQ(summary.sent, 4);
  EXPECT_EQ(summary.completed, 4);
  EXPECT_EQ(summary.failed, 0);
  EXPECT_EQ(summary.skipped, 0);
  EXPECT_EQ(summary.output_tokens, 8);
  EXPECT_EQ(summary.ttft.count(), 4);
  EXPECT_EQ(summary.itl.count(), 4);
  ASSERT_EQ(outcomes_.size(), 4u);
  EXPECT_EQ(outcomes_[0].finish_reason, "length");
  EXPECT_EQ(outcomes_[0].output_tokens, 2);
  EXPECT_EQ(outcomes_[0].answer_hash, Fingerprint().Mix("ab").Hex());
  EXPECT_GT(outcomes_[0].ttft, 0);
  EXPECT_GE(outcomes_[0].e2e, outcomes_[0].ttft);
  const std::string body = server_.bodies()[0];
  EXPECT_NE(body.find("\"model\":\"demo\""), std::string::npos) << body;
  EXPECT_NE(body.find("\"max_tokens\":2"), std::string::npos) << body;
  EXPECT_NE(body.find("\"stream\":true"), std::string::npos) << body;
}

TEST_F(RunLoadTest, SaysWhyTheEndpointCannotBeUsed) {
  const auto why = [](const LoadOptions& options) {
    return RunLoad(
               options, {{0, 3, 2}}, [](const RequestOutcome&) {}, [] { return false; })
        .status()
        .message();
  };
  LoadOptions options;
  options.url = "http://127.0.0.1:1";
  EXPECT_EQ(why(options),
            "http://127.0.0.1:1/v1/models: cannot connect; check that the server runs and listens "
            "at this address");
  options.url = server_.url();
  server_.status = 503;
  EXPECT_EQ(why(options), options.url + "/v1/models: HTTP 503: no instance yet");
  server_.status = 200;
  server_.key = "secret";
  EXPECT_EQ(why(options), options.url + " needs an API key; set OPENAI_API_KEY");
  options.api_key = "another";
  EXPECT_EQ(why(options), options.url + " refuses the API key in OPENAI_API_KEY");
  options.api_key = "secret";
  EXPECT_EQ(why(options), "");
}

TEST_F(RunLoadTest, SaysThatTimedDevicesServeAndWhetherTheRunIsVoid) {
  const auto scrape = [](const std::string& waits, const std::string& overruns) {
    return "# HELP x y\njanus_gateway_timed_waits " + waits + "\n# HELP y z\n" +
           "janus_gateway_timed_overruns " + overruns + "\n";
  };
  server_.metrics = {scrape("1000", "900"), scrape("2e+03", "910")};
  LoadSummary summary = Run({{0, 4, 2}});
  EXPECT_EQ(summary.timed_waits, 1000u);
  EXPECT_EQ(summary.timed_overruns, 10u);
  EXPECT_NE(Describe(summary).find("\nemulated: "), std::string::npos) << Describe(summary);
  EXPECT_EQ(Describe(summary).find("void"), std::string::npos) << Describe(summary);
  summary.timed_overruns = 32;
  EXPECT_NE(Describe(summary).find("\nvoid: 3.2 % of the results"), std::string::npos);
  EXPECT_EQ(Describe(LoadSummary()).find("emulated"), std::string::npos);
  EXPECT_EQ(ReadTimedCounts("nothing of it\n").waits, 0u);
}

TEST(Describe, GivesNoFiguresOfWhatWasNot) {
  const std::string text = Describe(LoadSummary());
  EXPECT_NE(text.find("TTFT: no request has a value"), std::string::npos) << text;
  EXPECT_EQ(text.find("p50"), std::string::npos) << text;
}

TEST_F(RunLoadTest, DrawsThePromptOfARequestFromItsIndexAndSeed) {
  Run({{0, 5, 1}}, 1);
  Run({{0, 5, 1}}, 1);
  EXPECT_EQ(server_.bodies()[0], server_.bodies()[1]);
}

// The server answers after all arrivals were handed over. The runner calls `stop` once before each
// arrival, and again while it waits for the end.
TEST_F(RunLoadTest, SkipsAndCountsWhatPassesItsConcurrency) {
  server_.Hold();
  on_stop_question_ = [this, asked = 0]() mutable {
    if (++asked > 10) server_.Release();
  };
  const LoadSummary summary = Run(std::vector<Arrival>(10, Arrival{0, 3, 2}), 2);
  EXPECT_EQ(summary.sent, 2);
  EXPECT_EQ(summary.skipped, 8);
  EXPECT_EQ(summary.completed, 2);
}

TEST_F(RunLoadTest, CountsARefusalAsAFailureWithItsMessage) {
  server_.status = 429;
  const LoadSummary summary = Run({{0, 3, 2}});
  EXPECT_EQ(summary.failed, 1);
  EXPECT_EQ(outcomes_.at(0).http_status, 429);
  EXPECT_EQ(outcomes_.at(0).error, "HTTP 429: queue full");
}

TEST_F(RunLoadTest, CountsAStreamThatBreaksOffAsAFailure) {
  server_.events.resize(2);
  const LoadSummary summary = Run({{0, 3, 2}});
  EXPECT_EQ(summary.failed, 1);
  EXPECT_EQ(summary.completed, 0);
  EXPECT_EQ(outcomes_.at(0).error, "the stream ended before the answer was complete");
}

TEST_F(RunLoadTest, CountsAnErrorEventAsAFailure) {
  server_.events[1] = Event(R"({"error":{"message":"worker lost"}})");
  Run({{0, 3, 2}});
  EXPECT_EQ(outcomes_.at(0).error, "worker lost");
}

TEST_F(RunLoadTest, StopsWhenAsked) {
  stop_ = true;
  const LoadSummary summary = Run({{0, 3, 2}, {1e9, 3, 2}});
  EXPECT_EQ(summary.completed, 0);
}

TEST(RunLoad, SaysThatNobodyAnswers) {
  LoadOptions options;
  options.url = "http://127.0.0.1:1";
  const auto ignore = [](const RequestOutcome&) {};
  const auto never = [] { return false; };
  EXPECT_EQ(RunLoad(options, {{0, 1, 1}}, ignore, never).status().code(), StatusCode::kUnavailable);
  options.url = "ftp://x";
  EXPECT_EQ(RunLoad(options, {{0, 1, 1}}, ignore, never).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(ToJson, IsOneLineWhateverTheErrorSays) {
  RequestOutcome outcome;
  outcome.error = "line\nbreak \"quoted\" \xff";
  EXPECT_EQ(ToJson(outcome).find('\n'), std::string::npos);
}

}  // namespace
}  // namespace janus::cli
