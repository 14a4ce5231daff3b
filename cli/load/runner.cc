#include "cli/load/runner.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "cli/load/http_client.h"
#include "cli/load/sse.h"
#include "common/fingerprint.h"
#include "common/mutex.h"
#include "common/timed_device.h"

namespace janus::cli {
namespace {

using Json = nlohmann::json;

// How often `stop` is polled.
constexpr std::chrono::milliseconds kStopInterval{100};

double Since(MonotonicTime start, MonotonicTime now) {
  return Seconds(now - start).count();
}

Result<std::string> FindModel(const LoadOptions& options) {
  JANUS_ASSIGN_OR_RETURN(const auto client,
                         HttpClient::Create(options.url, options.timeout, options.api_key));
  JANUS_ASSIGN_OR_RETURN(const HttpReply reply, client->Get("/v1/models"));
  if (reply.status == 401) {
    return FailedPrecondition(options.url + (options.api_key.empty()
                                                 ? " needs an API key; set OPENAI_API_KEY"
                                                 : " refuses the API key in OPENAI_API_KEY"));
  }
  if (reply.status != 200) {
    return Unavailable(options.url + "/v1/models: HTTP " + std::to_string(reply.status) + ": " +
                       ErrorMessage(reply.body));
  }
  const Json root = Json::parse(reply.body, nullptr, false);
  if (root.is_object() && root.contains("data") && root["data"].is_array() &&
      !root["data"].empty() && root["data"][0].value("id", Json()).is_string()) {
    return root["data"][0]["id"].get<std::string>();
  }
  return NotFound(options.url + "/v1/models: the server lists no model; give --model");
}

// Of the endpoint as it is now; nothing where it does not say.
TimedCounts AskTimedCounts(HttpClient& client) {
  const Result<HttpReply> reply = client.Get("/metrics");
  return reply.ok() && reply->status == 200 ? ReadTimedCounts(reply->body) : TimedCounts();
}

// The prompt of a request depends only on the seed and its index.
std::string RequestBody(const LoadOptions& options, const std::string& model, int64_t index,
                        const Arrival& arrival) {
  std::mt19937_64 random(options.seed * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(index));
  Json prompt = Json::array();
  const auto range = static_cast<uint64_t>(std::max(options.token_ids_below - 1, 1));
  for (int i = 0; i < arrival.input_tokens; ++i) prompt.push_back(1 + random() % range);
  Json body = {{"model", model},
               {"prompt", std::move(prompt)},
               {"max_tokens", arrival.output_tokens},
               {"temperature", options.temperature},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}}};
  if (options.ignore_eos) body["ignore_eos"] = true;
  return body.dump();
}

class Runner {
 public:
  Runner(const LoadOptions& options, const std::vector<Arrival>& arrivals, std::string model,
         const std::function<void(const RequestOutcome&)>& on_outcome,
         const std::function<bool()>& stop)
      : options_(options),
        arrivals_(arrivals),
        model_(std::move(model)),
        on_outcome_(on_outcome),
        stop_(stop) {}

  LoadSummary Run() {
    start_ = MonotonicClock::now();
    {
      std::vector<std::jthread> workers;
      SendAll(workers);
      Finish();
    }  // the workers are joined here
    summary_.seconds = Since(start_, MonotonicClock::now());
    return std::move(summary_);
  }

 private:
  struct Task {
    int64_t index;
    MonotonicTime due;
  };

  // Hands over every arrival at its time. Starts more workers as concurrency grows.
  void SendAll(std::vector<std::jthread>& workers) {
    for (size_t i = 0; i < arrivals_.size(); ++i) {
      const auto offset = std::chrono::duration_cast<MonotonicClock::duration>(
          Seconds(arrivals_[i].seconds / options_.time_scale));
      if (!WaitUntil(start_ + offset)) return;
      MutexLock lock(mu_);
      if (open_ >= options_.max_concurrency) {
        ++summary_.skipped;
        continue;
      }
      ++open_;
      ++summary_.sent;
      tasks_.push_back({static_cast<int64_t>(i), start_ + offset});  // at most max_concurrency
      if (open_ > static_cast<int>(workers.size())) {
        workers.emplace_back([this] { Work(); });
      }
      changed_.NotifyAll();
    }
  }

  // False if stopped before.
  bool WaitUntil(MonotonicTime due) {
    MutexLock lock(mu_);
    while (!stopping_) {
      if (stop_()) {
        stopping_ = true;
        changed_.NotifyAll();
        break;
      }
      const MonotonicTime now = MonotonicClock::now();
      if (now >= due) return true;
      timer_.WaitUntil(mu_, std::min(due, now + kStopInterval));
    }
    return false;
  }

  void Finish() {
    MutexLock lock(mu_);
    while (open_ > 0) {
      if (!stopping_ && stop_()) stopping_ = true;
      if (stopping_) {
        // Tasks that no worker has taken are not sent.
        summary_.sent -= static_cast<int64_t>(tasks_.size());
        open_ -= static_cast<int>(tasks_.size());
        tasks_.clear();
        if (open_ == 0) break;
      }
      timer_.WaitUntil(mu_, MonotonicClock::now() + kStopInterval);
    }
    done_ = true;
    changed_.NotifyAll();
  }

  bool Stopping() {
    MutexLock lock(mu_);
    return stopping_;
  }

  void Work() {
    std::unique_ptr<HttpClient> client;
    while (true) {
      Task task;
      {
        MutexLock lock(mu_);
        while (tasks_.empty() && !done_ && !stopping_) changed_.Wait(mu_);
        if (tasks_.empty()) return;
        task = tasks_.front();
        tasks_.pop_front();
      }
      Histogram itl;
      const RequestOutcome outcome = Send(task, client, itl);
      Report(outcome, itl);
    }
  }

  RequestOutcome Send(const Task& task, std::unique_ptr<HttpClient>& client, Histogram& itl) {
    RequestOutcome out;
    out.index = task.index;
    out.arrival = arrivals_[static_cast<size_t>(task.index)];
    const std::string body = RequestBody(options_, model_, task.index, out.arrival);
    if (client == nullptr)
      client = *HttpClient::Create(options_.url, options_.timeout, options_.api_key);

    const MonotonicTime sent = MonotonicClock::now();
    out.late = Since(task.due, sent);
    MonotonicTime first{};
    MonotonicTime last{};
    int events = 0;
    int usage_tokens = -1;
    Fingerprint answer;  // of its text, however it is cut into events
    bool ended = false;
    SseParser parser([&](std::string_view data) {
      if (data == "[DONE]") {
        ended = true;
        return;
      }
      const Result<CompletionChunk> chunk = ParseChunk(data);
      if (!chunk.ok()) {
        if (out.error.empty()) out.error = chunk.status().message();
        return;
      }
      if (!chunk->error.empty()) out.error = chunk->error;
      if (!chunk->finish_reason.empty()) out.finish_reason = chunk->finish_reason;
      if (chunk->completion_tokens >= 0) usage_tokens = chunk->completion_tokens;
      if (chunk->text.empty()) return;
      answer.Mix(chunk->text);
      const MonotonicTime now = MonotonicClock::now();
      if (events++ == 0) {
        first = now;
      } else {
        itl.Add(Since(last, now));
      }
      last = now;
    });
    const Result<HttpReply> reply =
        client->PostStream("/v1/completions", body, [&](std::string_view bytes) {
          const Status fed = parser.Feed(bytes);
          if (!fed.ok()) out.error = fed.message();
          return fed.ok() && !Stopping();
        });
    out.e2e = Since(sent, MonotonicClock::now());
    out.answer_hash = answer.Hex();
    out.output_tokens = usage_tokens >= 0 ? usage_tokens : events;
    if (events > 0) out.ttft = Since(sent, first);
    if (events > 1 && out.output_tokens > 1) {
      out.tpot = Since(first, last) / (out.output_tokens - 1);
    }
    if (!reply.ok()) {
      if (out.error.empty()) out.error = reply.status().message();
      client.reset();
    } else {
      out.http_status = reply->status;
      if (reply->status != 200) {
        out.error = "HTTP " + std::to_string(reply->status) + ": " + ErrorMessage(reply->body);
      } else if (out.error.empty() && out.finish_reason == "error") {
        out.error = "the server ended the answer with finish_reason error";
      } else if (out.error.empty() && (!ended || out.finish_reason.empty())) {
        out.error = "the stream ended before the answer was complete";
      }
    }
    return out;
  }

  void Report(const RequestOutcome& outcome, const Histogram& itl) {
    MutexLock lock(mu_);
    --open_;
    if (outcome.error.empty()) {
      ++summary_.completed;
      summary_.ttft.Add(outcome.ttft);
      if (outcome.tpot > 0) summary_.tpot.Add(outcome.tpot);
    } else {
      ++summary_.failed;
    }
    summary_.output_tokens += outcome.output_tokens;
    summary_.late.Add(outcome.late);
    summary_.itl.Merge(itl);
    on_outcome_(outcome);
    timer_.NotifyAll();
  }

  const LoadOptions& options_;
  const std::vector<Arrival>& arrivals_;
  const std::string model_;
  const std::function<void(const RequestOutcome&)>& on_outcome_;
  const std::function<bool()>& stop_;
  MonotonicTime start_;

  Mutex mu_;
  CondVar changed_;  // signals tasks_, done_, stopping_
  CondVar timer_;    // signals open_, or ends with time
  std::deque<Task> tasks_ JANUS_GUARDED_BY(mu_);
  int open_ JANUS_GUARDED_BY(mu_) = 0;
  bool done_ JANUS_GUARDED_BY(mu_) = false;
  bool stopping_ JANUS_GUARDED_BY(mu_) = false;
  LoadSummary summary_;  // guarded while workers run
};

}  // namespace

Result<LoadSummary> RunLoad(const LoadOptions& options, const std::vector<Arrival>& arrivals,
                            const std::function<void(const RequestOutcome&)>& on_outcome,
                            const std::function<bool()>& stop) {
  JANUS_ASSIGN_OR_RETURN(const auto probe, HttpClient::Create(options.url, options.timeout));
  std::string model = options.model;
  if (model.empty()) {
    JANUS_ASSIGN_OR_RETURN(model, FindModel(options));
  }
  const TimedCounts before = AskTimedCounts(*probe);
  LoadSummary summary = Runner(options, arrivals, std::move(model), on_outcome, stop).Run();
  const TimedCounts after = AskTimedCounts(*probe);
  // Fewer than before: instances have left, and what they had counted.
  const bool goes_on = after.waits >= before.waits && after.overruns >= before.overruns;
  summary.timed_waits = after.waits - (goes_on ? before.waits : 0);
  summary.timed_overruns = after.overruns - (goes_on ? before.overruns : 0);
  return summary;
}

TimedCounts ReadTimedCounts(std::string_view metrics) {
  const auto value = [&](std::string_view name) -> uint64_t {
    const std::string line = "\n" + std::string(name) + " ";
    const size_t at = metrics.find(line);
    if (at == std::string_view::npos) return 0;
    // Prometheus writes numbers as floats.
    const double number =
        std::strtod(std::string(metrics.substr(at + line.size(), 32)).c_str(), nullptr);
    return number > 0 && number < 1e18 ? static_cast<uint64_t>(number) : 0;
  };
  return {value("janus_gateway_timed_waits"), value("janus_gateway_timed_overruns")};
}

std::string ToJson(const RequestOutcome& outcome) {
  Json line = {{"index", outcome.index},
               {"arrival_seconds", outcome.arrival.seconds},
               {"late_seconds", outcome.late},
               {"input_tokens", outcome.arrival.input_tokens},
               {"asked_tokens", outcome.arrival.output_tokens},
               {"output_tokens", outcome.output_tokens},
               {"ttft_seconds", outcome.ttft},
               {"tpot_seconds", outcome.tpot},
               {"e2e_seconds", outcome.e2e},
               {"status", outcome.http_status},
               {"finish_reason", outcome.finish_reason},
               {"answer_hash", outcome.answer_hash},
               {"error", outcome.error}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string Describe(const LoadSummary& summary) {
  char line[256];
  std::string out;
  const double seconds = std::max(summary.seconds, 1e-9);
  std::snprintf(line, sizeof(line),
                "%lld sent, %lld completed, %lld failed, %lld skipped in %.1f s: %.2f requests/s, "
                "%.1f tokens/s\n",
                static_cast<long long>(summary.sent), static_cast<long long>(summary.completed),
                static_cast<long long>(summary.failed), static_cast<long long>(summary.skipped),
                summary.seconds, static_cast<double>(summary.completed) / seconds,
                static_cast<double>(summary.output_tokens) / seconds);
  out += line;
  const auto row = [&](const char* name, const Histogram& times) {
    if (times.count() == 0) {
      out += std::string(name) + ": no request has a value\n";
      return;
    }
    std::snprintf(line, sizeof(line),
                  "%-5s p50 %8.1f ms   p90 %8.1f ms   p95 %8.1f ms   p99 %8.1f ms   (%lld)\n", name,
                  times.Percentile(50) * 1e3, times.Percentile(90) * 1e3,
                  times.Percentile(95) * 1e3, times.Percentile(99) * 1e3,
                  static_cast<long long>(times.count()));
    out += line;
  };
  row("TTFT", summary.ttft);
  row("ITL", summary.itl);
  row("TPOT", summary.tpot);
  if (summary.timed_waits > 0) {
    out +=
        "emulated: timed devices served these requests; the times are those of the emulated "
        "devices, not of this machine\n";
  }
  if (IsVoid(summary.timed_waits, summary.timed_overruns)) {
    std::snprintf(line, sizeof(line),
                  "void: %.1f %% of the results came more than 2 ms late, so these times are not "
                  "valid; serve with a lower --time-scale if it is above 1, with a larger --scale "
                  "and fewer requests, or on more cores\n",
                  100.0 * static_cast<double>(summary.timed_overruns) /
                      static_cast<double>(summary.timed_waits));
    out += line;
  }
  if (summary.late.Percentile(99) > 0.01) {
    std::snprintf(line, sizeof(line),
                  "requests were sent %.0f ms late (p99): this machine is too busy to keep the "
                  "rate\n",
                  summary.late.Percentile(99) * 1e3);
    out += line;
  }
  return out;
}

}  // namespace janus::cli
