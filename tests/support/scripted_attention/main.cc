// A worker that answers by fixed rules, for tests of the gateway: no model, the real token stream.
//
// At temperature 0 the answer repeats the prompt (without a leading <s>, id 1), then has the first
// stop token; with ignore_eos it repeats again. Above 0 each token is a hash of (seed, position).
// One token per request and step. One JSON line on stdout for each received Submit and Cancel.
//
// With --topology FILE, a GetTopologyReply in text form, it sends that topology to watchers, and
// again when the file changes. Without a file it has no topology yet.

#include <google/protobuf/text_format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "proto/control.grpc.pb.h"
#include "proto/tokens.grpc.pb.h"
#include "rpc/channel.h"

namespace {

using janus::v1::FromAttention;
using janus::v1::RequestTokens;
using janus::v1::Submit;
using janus::v1::ToAttention;
using Stream = grpc::ServerReaderWriter<FromAttention, ToAttention>;

struct Options {
  std::string listen = "127.0.0.1:0";
  std::string topology;     // file; empty: none
  std::string service_uid;  // of its watchers
  int64_t pool = 1;
  int64_t vocabulary = 512;
  int64_t max_context = 1024;
  int64_t kv_capacity = 1 << 20;
  int64_t max_requests = 100'000;
  int64_t step_ms = 1;
  int64_t reject = 0;        // the first so many Submits: RESOURCE_EXHAUSTED
  int64_t stall_after = -1;  // tokens per request; then nothing more ...
  std::string stall_until;   // ... before this file exists; empty: ever
  int64_t error_after = -1;  // tokens per request; then FINISH_REASON_ERROR
  int64_t error_code = 13;   // of that error: a gRPC status code
  bool replay = false;
  bool quiet = false;
};

uint64_t Mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

struct Running {
  Submit submit;
  std::vector<uint32_t> echo;
  int64_t generated = 0;
  int routed = 0;         // the next position whose experts are to be sent
  RequestTokens pending;  // waits for credit
};

class Attachment {
 public:
  Attachment(const Options& options, std::atomic<int64_t>& rejects, Stream* stream)
      : options_(options), rejects_(rejects), stream_(stream) {}

  grpc::Status Serve() {
    ToAttention hello;
    if (!stream_->Read(&hello) || !hello.has_hello()) {
      return {grpc::StatusCode::FAILED_PRECONDITION, "the first message must be Hello"};
    }
    credits_ = hello.hello().credits();
    FromAttention welcome;
    janus::v1::Welcome& w = *welcome.mutable_welcome();
    w.set_instance("scripted");
    w.set_vocabulary_size(static_cast<uint32_t>(options_.vocabulary));
    w.set_max_context_tokens(static_cast<uint32_t>(options_.max_context));
    w.set_max_requests(static_cast<uint32_t>(options_.max_requests));
    w.set_kv_capacity_tokens(static_cast<uint64_t>(options_.kv_capacity));
    w.set_accepts_replay(options_.replay);
    w.set_accepts_counts(true);
    w.set_routed_layers(2);
    w.set_routed_top_k(2);
    stream_->Write(welcome);
    std::jthread reader([this] { ReadAll(); });
    auto next = std::chrono::steady_clock::now();
    std::unique_lock lock(mu_);
    while (!ended_) {
      next += std::chrono::milliseconds(options_.step_ms);
      changed_.wait_until(lock, next, [this] { return ended_; });
      if (running_.empty()) next = std::chrono::steady_clock::now();
      stalls_ = options_.stall_after >= 0 &&
                (options_.stall_until.empty() || !std::filesystem::exists(options_.stall_until));
      for (auto& [id, running] : running_) Advance(running);
      FromAttention message = TakeStep();
      if (message.message_case() == FromAttention::MESSAGE_NOT_SET) continue;
      lock.unlock();
      const bool sent = stream_->Write(message);
      lock.lock();
      if (!sent) break;
    }
    return grpc::Status::OK;
  }

 private:
  void ReadAll() {
    ToAttention message;
    while (stream_->Read(&message)) {
      std::lock_guard lock(mu_);
      if (message.has_submit()) OnSubmit(message.submit());
      if (message.has_cancel()) {
        running_.erase(message.cancel().request_id());
        if (!options_.quiet) {
          std::printf("{\"cancel\": %llu}\n",
                      static_cast<unsigned long long>(message.cancel().request_id()));
        }
        std::fflush(stdout);
      }
      if (message.has_counts() && !options_.quiet) PrintCounts(message.counts());
      if (message.has_credits()) credits_ += message.credits().steps();
    }
    std::lock_guard lock(mu_);
    ended_ = true;
    changed_.notify_all();
  }

  static void PrintCounts(const janus::v1::GatewayCounts& counts) {
    const auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
    std::printf(
        "{\"counts\": %llu, \"arrived\": %llu, \"prompt_tokens\": %llu, \"unread\": %llu, "
        "\"refused\": %llu, \"failed\": %llu, \"finished\": %llu, \"output_tokens\": %llu, "
        "\"waiting\": %llu}\n",
        number(counts.reports()), number(counts.arrived()), number(counts.prompt_tokens()),
        number(counts.unread()), number(counts.refused()), number(counts.failed()),
        number(counts.finished()), number(counts.output_tokens()), number(counts.waiting()));
    std::fflush(stdout);
  }

  void OnSubmit(const Submit& submit) {
    if (!options_.quiet) {
      std::printf(
          "{\"submit\": %llu, \"attempt\": %u, \"prompt_tokens\": %d, \"max_tokens\": %u, "
          "\"temperature\": %g, \"top_k\": %u, \"top_p\": %g, \"seed\": %llu, "
          "\"stop_tokens\": %d, \"generated\": %d, \"changes\": {\"frequency\": %g, "
          "\"presence\": %g, \"repetition\": %g, \"min_p\": %g, \"min_tokens\": %u, "
          "\"bias\": %d}}\n",
          static_cast<unsigned long long>(submit.request_id()), submit.attempt(),
          submit.prompt_tokens_size(), submit.max_tokens(), submit.sampling().temperature(),
          submit.sampling().top_k(), submit.sampling().top_p(),
          static_cast<unsigned long long>(submit.sampling().seed()), submit.stop_tokens_size(),
          submit.generated_tokens_size(), submit.sampling().frequency_penalty(),
          submit.sampling().presence_penalty(), submit.sampling().repetition_penalty(),
          submit.sampling().min_p(), submit.sampling().min_tokens(),
          submit.sampling().logit_bias_size());
      std::fflush(stdout);
    }
    if (rejects_.fetch_sub(1) > 0 ||
        static_cast<int64_t>(running_.size()) >= options_.max_requests) {
      rejected_.push_back({submit.request_id(), submit.attempt()});
      return;
    }
    Running& running = running_[submit.request_id()];
    running.submit = submit;
    running.generated = submit.generated_tokens_size();
    running.routed = static_cast<int>(submit.routed_experts()) - 1;
    running.echo.assign(submit.prompt_tokens().begin(), submit.prompt_tokens().end());
    if (!running.echo.empty() && running.echo.front() == 1)
      running.echo.erase(running.echo.begin());
  }

  uint32_t NextToken(const Running& running) const {
    const auto position = static_cast<uint64_t>(running.generated);
    if (running.submit.sampling().temperature() > 0) {
      // Above the special tokens.
      const uint64_t ordinary = static_cast<uint64_t>(options_.vocabulary) - 8;
      return 8 + static_cast<uint32_t>(Mix(running.submit.sampling().seed() ^ Mix(position)) %
                                       ordinary);
    }
    const bool stops = !running.submit.ignore_eos() && running.submit.stop_tokens_size() > 0;
    if (position >= running.echo.size() && (stops || running.echo.empty())) {
      return running.submit.stop_tokens_size() > 0 ? running.submit.stop_tokens(0) : 2;
    }
    return running.echo[position % running.echo.size()];
  }

  // -1, -2, -3, ... for the prompt's tokens from the second on; each token itself is the likeliest.
  void ScorePrompt(const Submit& submit, RequestTokens& out) const {
    out.set_prompt_logprobs_from(1);
    for (int i = 1; i < submit.prompt_tokens_size(); ++i) {
      janus::v1::PositionLogprobs& logprobs = *out.add_prompt_logprobs();
      logprobs.set_logprob(-static_cast<float>(i));
      for (uint32_t r = 0; r + 1 < submit.prompt_logprobs(); ++r) {
        janus::v1::TokenLogprob& top = *logprobs.add_top();
        top.set_token((submit.prompt_tokens(i) + r) % static_cast<uint32_t>(options_.vocabulary));
        top.set_logprob(-static_cast<float>(i) - static_cast<float>(r));
      }
    }
  }

  // The first layer has no experts; the second routes position p to p and p + 1.
  static void Route(Running& running, RequestTokens& out) {
    const int end = running.submit.prompt_tokens_size() + static_cast<int>(running.generated);
    int& next = running.routed;
    if (next < end && out.routed_experts().empty()) {
      out.set_routed_experts_from(static_cast<uint32_t>(next));
    }
    for (; next < end; ++next) {
      for (const int id : {0xFFFF, 0xFFFF, next, next + 1}) {
        out.mutable_routed_experts()->push_back(static_cast<char>(id & 0xFF));
        out.mutable_routed_experts()->push_back(static_cast<char>(id >> 8));
      }
    }
  }

  void Advance(Running& running) const {
    const Submit& submit = running.submit;
    if (running.pending.finish_reason() != janus::v1::FINISH_REASON_NONE) return;
    if (stalls_ && running.generated >= options_.stall_after) return;
    RequestTokens& out = running.pending;
    out.set_request_id(submit.request_id());
    out.set_attempt(submit.attempt());
    if (options_.error_after >= 0 && running.generated >= options_.error_after) {
      out.set_finish_reason(janus::v1::FINISH_REASON_ERROR);
      out.set_error("scripted failure");
      out.set_error_code(static_cast<uint32_t>(options_.error_code));
      return;
    }
    if (submit.prompt_logprobs() > 0 && running.generated == submit.generated_tokens_size()) {
      ScorePrompt(submit, out);
    }
    if (submit.routed_experts() > 0) Route(running, out);
    const uint32_t token = NextToken(running);
    out.add_tokens(token);
    if (submit.logprobs() > 0) {
      janus::v1::PositionLogprobs& logprobs = *out.add_logprobs();
      logprobs.set_logprob(-0.25f);
      for (uint32_t i = 0; i + 1 < submit.logprobs(); ++i) {
        janus::v1::TokenLogprob& top = *logprobs.add_top();
        top.set_token((token + i) % static_cast<uint32_t>(options_.vocabulary));
        top.set_logprob(-0.25f - static_cast<float>(i));
      }
    }
    if (submit.want_logits_hash()) {
      out.add_logits_hashes(Mix(token ^ Mix(static_cast<uint64_t>(running.generated))));
    }
    ++running.generated;
    const auto& stops = submit.stop_tokens();
    if (!submit.ignore_eos() && std::find(stops.begin(), stops.end(), token) != stops.end()) {
      out.set_finish_reason(janus::v1::FINISH_REASON_STOP);
    } else if (running.generated >= submit.max_tokens()) {
      out.set_finish_reason(janus::v1::FINISH_REASON_LENGTH);
    }
  }

  FromAttention TakeStep() {
    FromAttention message;
    if (!rejected_.empty()) {
      janus::v1::Rejected& rejected = *message.mutable_rejected();
      rejected.set_request_id(rejected_.back().first);
      rejected.set_attempt(rejected_.back().second);
      rejected.set_code(static_cast<uint32_t>(grpc::StatusCode::RESOURCE_EXHAUSTED));
      rejected.set_message("the scripted instance is full");
      rejected_.pop_back();
      return message;
    }
    if (credits_ == 0) return message;
    uint64_t kv = 0;
    janus::v1::Step step;
    for (auto it = running_.begin(); it != running_.end();) {
      Running& running = it->second;
      kv += static_cast<uint64_t>(running.submit.prompt_tokens_size() + running.generated);
      const bool over = running.pending.finish_reason() != janus::v1::FINISH_REASON_NONE;
      if (running.pending.tokens_size() > 0 || over) {
        step.add_requests()->Swap(&running.pending);
        running.pending.Clear();
      }
      it = over ? running_.erase(it) : std::next(it);
    }
    if (step.requests_size() == 0) return message;
    --credits_;
    step.set_kv_tokens_in_use(kv);
    step.set_running(static_cast<uint32_t>(running_.size()));
    step.set_step(++step_);
    *message.mutable_step() = std::move(step);
    return message;
  }

  const Options& options_;
  std::atomic<int64_t>& rejects_;
  Stream* const stream_;
  std::mutex mu_;
  std::condition_variable changed_;
  bool ended_ = false;
  bool stalls_ = false;
  uint64_t credits_ = 0;
  uint64_t step_ = 0;
  std::map<uint64_t, Running> running_;
  std::vector<std::pair<uint64_t, uint32_t>> rejected_;
};

class ScriptedTokens final : public janus::v1::Tokens::Service {
 public:
  explicit ScriptedTokens(const Options& options) : options_(options), rejects_(options.reject) {}
  grpc::Status Attach(grpc::ServerContext*, Stream* stream) override {
    return Attachment(options_, rejects_, stream).Serve();
  }

 private:
  const Options& options_;
  std::atomic<int64_t> rejects_;
};

class ScriptedControl final : public janus::v1::Control::Service {
 public:
  explicit ScriptedControl(const Options& options) : options_(options) {}
  grpc::Status WatchTopology(grpc::ServerContext* context,
                             const janus::v1::GetTopologyRequest* request,
                             grpc::ServerWriter<janus::v1::GetTopologyReply>* writer) override {
    if (request->service_uid() != options_.service_uid) {
      return {grpc::StatusCode::PERMISSION_DENIED, "another service"};
    }
    if (request->pool() != 0 && request->pool() != static_cast<uint32_t>(options_.pool)) {
      return {grpc::StatusCode::FAILED_PRECONDITION, "another pool"};
    }
    std::string told;
    while (!context->IsCancelled()) {
      std::ifstream file(options_.topology);
      std::ostringstream text;
      if (file) text << file.rdbuf();
      janus::v1::GetTopologyReply reply;
      if (text.str() != told && google::protobuf::TextFormat::ParseFromString(text.str(), &reply)) {
        told = text.str();
        if (!writer->Write(reply)) break;
      }
      // Another process writes the file.
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return grpc::Status::OK;
  }

 private:
  const Options& options_;
};

bool Parse(int argc, char** argv, Options* out) {
  const std::map<std::string, int64_t*> numbers = {
      {"--vocabulary", &out->vocabulary},   {"--max-context", &out->max_context},
      {"--kv-capacity", &out->kv_capacity}, {"--max-requests", &out->max_requests},
      {"--step-ms", &out->step_ms},         {"--reject", &out->reject},
      {"--stall-after", &out->stall_after}, {"--error-after", &out->error_after},
      {"--error-code", &out->error_code},   {"--pool", &out->pool},
  };
  const std::map<std::string, std::string*> texts = {{"--listen", &out->listen},
                                                     {"--topology", &out->topology},
                                                     {"--stall-until", &out->stall_until},
                                                     {"--service-uid", &out->service_uid}};
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--replay") {
      out->replay = true;
    } else if (flag == "--quiet") {
      out->quiet = true;
    } else if (const auto text = texts.find(flag); text != texts.end() && i + 1 < argc) {
      *text->second = argv[++i];
    } else if (const auto number = numbers.find(flag); number != numbers.end() && i + 1 < argc) {
      const char* text = argv[++i];
      const auto [end, error] = std::from_chars(text, text + std::strlen(text), *number->second);
      if (error != std::errc() || *end != '\0') return false;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, &options)) {
    std::fprintf(stderr, "scripted-attention: unknown or broken argument\n");
    return 2;
  }
  ScriptedTokens service(options);
  ScriptedControl control(options);
  int port = 0;
  grpc::ServerBuilder builder;
  janus::AllowIdleCallers(builder);
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  builder.RegisterService(&control);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server) {
    std::fprintf(stderr, "scripted-attention: cannot listen on %s\n", options.listen.c_str());
    return 1;
  }
  std::printf("{\"ready\": %d}\n", port);
  std::fflush(stdout);
  server->Wait();
  return 0;
}
