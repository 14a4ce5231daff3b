// A client sends any bytes to the gateway's public port, in any pieces, while its requests are
// answered, its streams are written and the server gets a stop signal. It receives only well-formed
// responses. Each request gets one answer or sees its client leave. Answers come in the order of
// the requests, from their owners. Another client is served meanwhile, and nothing is left behind.
//
// The input is a list of [action, length, bytes...].

#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/mutex.h"
#include "dataplane/gateway/http_server.h"
#include "tests/fuzz/actions.h"
#include "tests/support/raw_http.h"

namespace janus::gateway {
namespace {

// One answer that the handler gives, now or later.
struct Owed {
  std::shared_ptr<HttpExchange> exchange = nullptr;  // null: the server itself sends it
  bool to_head = false;
  bool is_stream = false;
  std::string body = {};
  bool is_over = false;  // its owner has finished it
  bool is_gone = false;  // its owner knows that the client is gone
};

// Decides by the path: /echo is answered at once, /stream as a stream at once, /later and /slow
// when an action triggers it. Other paths do not exist. Confined to the one I/O thread, except
// AwaitControl.
class Handler final : public HttpHandler {
 public:
  std::optional<HttpReply> JudgeHead(const HttpHead& head) override {
    JANUS_CHECK(!head.method.empty());
    if (serves_another && head.path == "/another") return HttpReply{.body = "another"};
    if (!has_control_ && head.path == "/control") return std::nullopt;
    is_reading_head_ = head.method == "HEAD";
    for (const char* path : {"/echo", "/stream", "/later", "/slow"}) {
      if (head.path == path) return std::nullopt;
    }
    return Refusal(head.path, 404, "there is no such path");
  }

  void Handle(std::shared_ptr<HttpExchange> exchange, HttpHead head, std::string body,
              MemoryLease memory) override {
    JANUS_CHECK(memory.bytes() >= static_cast<int64_t>(body.size()));
    if (head.path == "/control") {
      const MutexLock lock(mu_);
      has_control_ = true;
      control_ = std::move(exchange);
      return changed_.NotifyAll();
    }
    is_reading_head_ = false;
    Owed& one = *owed.emplace_back(std::make_unique<Owed>());
    one.exchange = std::move(exchange);
    one.to_head = head.method == "HEAD";
    one.is_stream = !one.to_head && (head.path == "/stream" || head.path == "/slow");
    one.exchange->OnGone([&one] {
      JANUS_CHECK(!one.is_gone);
      // If the stream was cut, its end does not count.
      JANUS_CHECK(!one.is_over || one.is_stream);
      one.is_gone = true;
    });
    if (one.is_stream) one.exchange->BeginStream("text/event-stream", {});
    // In two writes: if the first is cut, the second is lost.
    const size_t most = body.size() / 4 * 3;
    Write(one, std::string_view(body).substr(0, most));
    Write(one, std::string_view(body).substr(most));
    if (answers_at_once_ || head.path == "/echo" || head.path == "/stream") Finish(one);
  }

  HttpReply Refusal(std::string_view /*path*/, int status, std::string message) override {
    Owed& one = *owed.emplace_back(std::make_unique<Owed>());
    one.to_head = std::exchange(is_reading_head_, false);
    one.body = message;
    one.is_over = true;
    return {.status = status, .body = std::move(message)};
  }

  // The unanswered request: at most one, because a connection is answered in order.
  Owed* Open() const {
    const bool none = owed.empty() || owed.back()->is_over || owed.back()->is_gone;
    return none ? nullptr : owed.back().get();
  }
  static void Write(Owed& one, std::string_view bytes) {
    one.body += bytes;
    if (one.is_stream) one.exchange->Write(bytes);
  }
  static void Finish(Owed& one) {
    one.is_over = true;
    if (one.is_stream) return one.exchange->EndStream();
    one.exchange->Respond({.body = one.body});
  }
  void AnswerAtOnce() {
    answers_at_once_ = true;
    if (Owed* open = Open()) Finish(*open);
  }

  std::shared_ptr<HttpExchange> AwaitControl() {
    const MutexLock lock(mu_);
    while (control_ == nullptr) changed_.Wait(mu_);
    return std::move(control_);
  }

  std::vector<std::unique_ptr<Owed>> owed;  // for the fuzzed connection, in its order
  bool serves_another = false;

 private:
  bool has_control_ = false;
  bool is_reading_head_ = false;  // the body of a HEAD request
  bool answers_at_once_ = false;
  Mutex mu_;
  CondVar changed_;
  std::shared_ptr<HttpExchange> control_ JANUS_GUARDED_BY(mu_);
};

class World {
 public:
  World() {
    auto server = HttpServer::Listen(options_, handler_, memory_, metrics_, log_);
    JANUS_CHECK(server.ok(), server.status().ToString());
    server_ = *std::move(server);
    port_ = server_->port();
    runs_ = std::jthread([this] { server_->Run(stop_, departure_); });
    control_client_.emplace(port_);
    control_client_->Send("GET /control HTTP/1.1\r\n\r\n");
    control_ = handler_.AwaitControl();
    client_.emplace(port_);
    Settle();
  }

  // False: the client has left.
  bool Do(uint8_t action, std::string_view bytes) {
    switch (action % 8) {
      case 4:
        OnServer([this] {
          if (Owed* open = handler_.Open()) Handler::Finish(*open);
        });
        break;  // the next request may be there
      case 5:
        OnServer([&] {
          if (Owed* open = handler_.Open()) Handler::Write(*open, bytes);
        });
        return true;
      case 6:
        if (!is_leaving_) SignalServer(runs_);
        is_leaving_ = true;
        break;
      case 7:
        is_reset_ = bytes.empty();
        if (is_reset_) client_->Reset();
        return false;
      default:
        client_->Send(bytes);
    }
    Settle();
    return true;
  }

  void End() {
    if (!is_leaving_) ExpectServesAnother();
    OnServer([this] { handler_.AnswerAtOnce(); });
    std::string said;
    if (!is_reset_) {
      Settle();
      client_->HalfClose();
      const std::optional<std::string> all = client_->ReadToEnd();
      JANUS_CHECK(all.has_value(), "the server does not close");
      said = *all;
    }
    client_->Close();
    if (!is_leaving_) ExpectServesAnother();
    OnServer([this] { control_->Respond({.close = true}); });
    JANUS_CHECK(control_client_->Read().status == 200);
    control_client_->Close();
    if (!is_leaving_) SignalServer(runs_);
    runs_.join();
    control_.reset();
    if (!is_reset_) Check(said);
    for (const auto& owed : handler_.owed) {
      JANUS_CHECK(owed->is_over || owed->is_gone, "neither answered nor told of its client's end");
      owed->exchange.reset();
    }
    server_.reset();
    JANUS_CHECK(memory_.in_use() == 0, memory_.in_use());
    JANUS_CHECK(metrics_.connections.value() == 0, metrics_.connections.value());
  }

 private:
  void OnServer(const std::function<void()>& work) {
    std::latch done(1);
    control_->Post([&] {
      work();
      done.count_down();
    });
    done.wait();
  }
  // Lets the I/O thread run often enough to finish the work of one action.
  void Settle() {
    for (int i = 0; i < 8; ++i) {
      OnServer([] {});
    }
  }
  void ExpectServesAnother() {
    RawHttpClient another(port_);
    OnServer([this] { handler_.serves_another = true; });
    another.Send("GET /another HTTP/1.1\r\n\r\n");
    JANUS_CHECK(another.Read().body == "another");
    OnServer([this] { handler_.serves_another = false; });
    another.Reset();
  }
  void Check(std::string_view said) {
    for (const auto& owed : handler_.owed) {
      HttpAnswer answer;
      TookAnswer took = TookAnswer::kPart;
      do {
        took = TakeHttpAnswer(said, owed->to_head, true, answer);
      } while (took == TookAnswer::kWhole && answer.status == 100);
      JANUS_CHECK(took != TookAnswer::kMalformed, said);
      if (owed->is_gone) {
        // The received part is a beginning of the answer, and nothing follows it.
        JANUS_CHECK(took == TookAnswer::kPart || answer.ends_with_connection);
        JANUS_CHECK(owed->body.starts_with(answer.body));
        JANUS_CHECK(said.empty(), said);
        JANUS_CHECK(owed == handler_.owed.back(), "answers after the client has gone");
        return;
      }
      JANUS_CHECK(took == TookAnswer::kWhole, "an answer was lost", said);
      if (!owed->to_head) JANUS_CHECK(answer.body == owed->body, answer.body);
    }
    // A client that got 100 Continue and then sent nothing.
    HttpAnswer answer;
    while (!said.empty()) {
      const TookAnswer took = TakeHttpAnswer(said, false, true, answer);
      JANUS_CHECK(took == TookAnswer::kWhole && answer.status == 100, "this answers no request",
                  said);
    }
  }

  const HttpOptions options_{.port = 0,
                             .threads = 1,
                             .max_connections = 3,
                             .max_header_bytes = 512,
                             .max_body_bytes = 2048,
                             .max_unsent_bytes = 1024,
                             .free_unsent_bytes = 64};
  const Departure departure_;
  StopSignals stop_;
  MetricRegistry registry_;
  GatewayMetrics metrics_{registry_, "m"};
  MemoryBudget memory_{2048, metrics_.memory};
  const Logger log_{2, LogLevel::kError};
  Handler handler_;
  std::unique_ptr<HttpServer> server_;
  int port_ = 0;
  std::jthread runs_;
  std::shared_ptr<HttpExchange> control_;
  std::optional<RawHttpClient> control_client_;  // its request is answered last
  std::optional<RawHttpClient> client_;
  bool is_leaving_ = false;
  bool is_reset_ = false;
};

}  // namespace
}  // namespace janus::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int kMostActions = 32;  // each takes time, and more reach nothing new
  janus::gateway::World world;
  int actions = 0;
  janus::ForEachAction(data, size, [&](uint8_t action, std::string_view bytes) {
    return world.Do(action, bytes) && ++actions < kMostActions;
  });
  world.End();
  return 0;
}
