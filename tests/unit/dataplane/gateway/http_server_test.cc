#include "dataplane/gateway/http_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <latch>
#include <set>
#include <thread>

#include "common/mutex.h"
#include "tests/support/raw_http.h"
#include "tests/support/time_scale.h"

namespace janus::gateway {
namespace {

const auto kPatience = Scaled(std::chrono::seconds(60));
constexpr Seconds kSoon{0.02};
constexpr Seconds kNever{100'000};

// Polls until it holds, for changes that send no signal.
template <class Holds>
testing::AssertionResult Await(const Holds& holds) {
  const MonotonicTime deadline = MonotonicClock::now() + kPatience;
  while (!holds()) {
    if (MonotonicClock::now() >= deadline) return testing::AssertionFailure() << "it never held";
    std::this_thread::yield();
  }
  return testing::AssertionSuccess();
}

// A request that the test itself answers.
struct Call {
  std::shared_ptr<HttpExchange> exchange;
  HttpHead head;
  std::string body;
  int64_t memory_bytes = 0;
  std::thread::id thread;
  std::atomic<int> gone = 0;
  std::atomic<int> ending = 0;

  // Runs `work` on the exchange's thread and waits for its end.
  void Do(const std::function<void(HttpExchange&)>& work) const {
    std::latch done(1);
    exchange->Post([&] {
      work(*exchange);
      done.count_down();
    });
    done.wait();
  }
  void Respond(HttpReply reply) const {
    Do([&](HttpExchange& on) { on.Respond(reply); });
  }
  void BeginStream() const {
    Do([](HttpExchange& on) { on.BeginStream("text/event-stream", {}); });
  }
  void Write(std::string_view bytes) const {
    Do([&](HttpExchange& on) { on.Write(bytes); });
  }
  void EndStream() const {
    Do([](HttpExchange& on) { on.EndStream(); });
  }
};

// Answers /echo at once with the request's body, and refuses /refused by its head; the test answers
// all others.
class ScriptedHandler final : public HttpHandler {
 public:
  std::optional<HttpReply> JudgeHead(const HttpHead& head) override {
    const MutexLock lock(mu_);
    heads_.push_back(head);
    changed_.NotifyAll();
    if (head.path != "/refused") return std::nullopt;
    return HttpReply{.status = 404, .body = "refused", .headers = {{"X-Why", "its head"}}};
  }

  void Handle(std::shared_ptr<HttpExchange> exchange, HttpHead head, std::string body,
              MemoryLease memory) override {
    if (head.path == "/echo") {
      on_echo();
      return exchange->Respond({.body = head.method + " " + head.path + " " + body});
    }
    const auto call = std::make_shared<Call>();
    call->exchange = exchange;
    call->head = std::move(head);
    call->body = std::move(body);
    call->memory_bytes = memory.bytes();
    call->thread = std::this_thread::get_id();
    exchange->OnGone([call = std::weak_ptr(call)] {
      if (const auto known = call.lock()) ++known->gone;
    });
    exchange->OnEnding([this, call = std::weak_ptr(call)] {
      const auto known = call.lock();
      if (!known) return;
      ++known->ending;
      on_ending(*known->exchange);
    });
    const MutexLock lock(mu_);
    calls_.push_back(call);
    changed_.NotifyAll();
  }

  HttpReply Refusal(std::string_view path, int status, std::string message) override {
    const MutexLock lock(mu_);
    refusals_.push_back(status);
    return {.status = status,
            .content_type = "text/plain",
            .body = std::move(message),
            .headers = {{"X-Path", std::string(path)}}};
  }

  // The next call that the test must answer. Null: none arrived.
  std::shared_ptr<Call> Next() {
    const MutexLock lock(mu_);
    const MonotonicTime deadline = MonotonicClock::now() + kPatience;
    while (calls_.empty()) {
      if (!changed_.WaitUntil(mu_, deadline)) return nullptr;
    }
    auto call = calls_.front();
    calls_.pop_front();
    return call;
  }
  void AwaitHeads(size_t count) {
    const MutexLock lock(mu_);
    while (heads_.size() < count) changed_.Wait(mu_);
  }
  std::vector<HttpHead> heads() {
    const MutexLock lock(mu_);
    return heads_;
  }
  std::vector<int> refusals() {
    const MutexLock lock(mu_);
    return refusals_;
  }
  // Number of calls that the test has not taken.
  size_t waiting() {
    const MutexLock lock(mu_);
    return calls_.size();
  }
  void DropCalls() {
    const MutexLock lock(mu_);
    calls_.clear();
  }

  // Called on the I/O thread; set it before the server runs.
  std::function<void()> on_echo = [] {};
  std::function<void(HttpExchange&)> on_ending = [](HttpExchange&) {};

 private:
  Mutex mu_;
  CondVar changed_;
  std::vector<HttpHead> heads_ JANUS_GUARDED_BY(mu_);
  std::vector<int> refusals_ JANUS_GUARDED_BY(mu_);
  std::deque<std::shared_ptr<Call>> calls_ JANUS_GUARDED_BY(mu_);
};

std::string Get(const std::string& path) {
  return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n";
}
std::string Post(const std::string& path, const std::string& body,
                 const std::string& version = "1.1") {
  return "POST " + path + " HTTP/" + version +
         "\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
std::string Chunked(const std::string& path, const std::string& chunks) {
  return "POST " + path + " HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks;
}

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() {
    options_.port = 0;
    options_.threads = 1;
    options_.idle_deadline = options_.read_deadline = options_.write_deadline = kNever;
  }

  // Starts a server like that of a process which gets a stop signal. `departure_` says how it ends.
  void Start() {
    auto server = HttpServer::Listen(options_, handler_, memory_, metrics_, log_);
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = *std::move(server);
    port_ = server_->port();
    departure_.on_leaving = [this] { leaving_.count_down(); };
    departure_.on_draining = [this] { draining_.count_down(); };
    runs_ = std::jthread([this] {
      server_->Run(stop_, departure_);
      has_returned_ = true;
    });
  }
  RawHttpClient Connect(int receive_buffer = 0) { return RawHttpClient(port_, receive_buffer); }
  void Signal() { ASSERT_EQ(SignalServer(runs_), 0); }
  void TearDown() override {
    if (!server_) return;
    if (runs_.joinable()) {
      Signal();
      leaving_.wait();
      if (!has_returned_) Signal();
      runs_.join();
    }
    handler_.DropCalls();
    server_.reset();
    EXPECT_EQ(metrics_.connections.value(), 0);
    EXPECT_EQ(memory_.in_use(), 0);
  }
  // Returns when Run has returned.
  void AwaitReturn() { runs_.join(); }
  testing::AssertionResult AwaitConnections(int count) {
    return Await([&] { return metrics_.connections.value() == count; });
  }
  // A separate connection is answered: the server continues, whatever happened to another
  // connection.
  void ExpectServes() {
    RawHttpClient client = Connect();
    client.Send(Post("/echo", "still there"));
    EXPECT_EQ(client.Read().body, "POST /echo still there");
  }
  // The server refuses it with that status, and then closes.
  void ExpectRefused(const std::string& request, int status, const std::string& why = "") {
    SCOPED_TRACE(request.substr(0, 200));
    RawHttpClient client = Connect();
    client.Send(request);
    const HttpAnswer answer = client.Read();
    EXPECT_EQ(answer.status, status) << answer.body;
    EXPECT_NE(answer.body.find(why), std::string::npos) << answer.body;
    EXPECT_EQ(answer.header("Connection"), "close");
    EXPECT_EQ(client.ReadToEnd(), "") << "one answer, and the end";
  }

  StopSignals stop_;
  HttpOptions options_;
  Departure departure_;
  ScriptedHandler handler_;
  MetricRegistry registry_;
  GatewayMetrics metrics_{registry_, "m"};
  MemoryBudget memory_{64 << 20, metrics_.memory};
  const Logger log_{2, LogLevel::kError};
  std::latch leaving_{1};
  std::latch draining_{1};
  std::atomic<bool> has_returned_ = false;
  std::unique_ptr<HttpServer> server_;
  int port_ = 0;
  std::jthread runs_;
};

// Requests and answers.

TEST_F(HttpServerTest, HandsOutARequestAndSendsItsAnswer) {
  Start();
  RawHttpClient client = Connect();
  client.Send(
      "POST /v1/x?query=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\n"
      "X-Api-Key: a\r\nContent-Length: 4\r\n\r\nbody");
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->head.method, "POST");
  EXPECT_EQ(call->head.path, "/v1/x");
  EXPECT_EQ(call->body, "body");
  EXPECT_EQ(call->memory_bytes, 4) << "the lease that comes along holds the body";
  ASSERT_EQ(handler_.heads().size(), 1u);
  EXPECT_EQ(handler_.heads()[0].authorization, "Bearer k");
  EXPECT_EQ(handler_.heads()[0].api_key, "a");
  call->Respond({.status = 201,
                 .content_type = "text/plain",
                 .body = "made",
                 .headers = {{"X-One", "1"}, {"X-Two", "2"}}});
  const HttpAnswer answer = client.Read();
  EXPECT_EQ(answer.status, 201);
  EXPECT_EQ(answer.body, "made");
  EXPECT_EQ(answer.header("Content-Type"), "text/plain");
  EXPECT_EQ(answer.header("Content-Length"), "4");
  EXPECT_EQ(answer.header("X-One") + answer.header("X-Two"), "12");
  EXPECT_EQ(answer.header("Connection"), "") << "it is kept";
}

TEST_F(HttpServerTest, AnswersExactlyOnce) {
  Start();
  RawHttpClient client = Connect();
  client.Send(Get("/held"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  call->Do([](HttpExchange& on) {
    on.Respond({.body = "first"});
    on.Respond({.body = "second"});
    on.BeginStream("text/plain", {});
    on.Write("third");
    on.EndStream();
  });
  EXPECT_EQ(client.Read().body, "first");
  // Nor does it write into the answer of the next request.
  client.Send(Get("/held"));
  const auto next = handler_.Next();
  ASSERT_NE(next, nullptr);
  call->Respond({.body = "fourth"});
  next->Respond({.body = "its own"});
  EXPECT_EQ(client.Read().body, "its own");
}

TEST_F(HttpServerTest, AConnectionIsKeptUntilItsClientWantsItClosed) {
  Start();
  RawHttpClient client = Connect();
  for (const char* body : {"one", "two", "three"}) {
    client.Send(Post("/echo", body));
    EXPECT_EQ(client.Read().body, std::string("POST /echo ") + body);
  }
  EXPECT_EQ(metrics_.connections.value(), 1);
  client.Send("GET /echo HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.Read().header("Connection"), "close");
  EXPECT_EQ(client.ReadToEnd(), "");
}

TEST_F(HttpServerTest, TheOwnerMayCloseAfterItsAnswer) {
  Start();
  RawHttpClient client = Connect();
  client.Send(Get("/held") + Get("/echo"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  call->Respond({.body = "the last", .close = true});
  const HttpAnswer answer = client.Read();
  EXPECT_EQ(answer.body, "the last");
  EXPECT_EQ(answer.header("Connection"), "close");
  EXPECT_EQ(client.ReadToEnd(), "");
}

TEST_F(HttpServerTest, PipelinedRequestsAreAnsweredInTheirOrderOneAfterTheOther) {
  Start();
  RawHttpClient client = Connect();
  client.Send(Post("/held", "a") + Post("/held", "b") + Post("/echo", "c"));
  for (const char* body : {"a", "b"}) {
    const auto call = handler_.Next();
    ASSERT_NE(call, nullptr);
    EXPECT_EQ(call->body, body);
    EXPECT_EQ(handler_.waiting(), 0u);
    call->Respond({.body = call->body});
  }
  EXPECT_EQ(client.Read().body, "a");
  EXPECT_EQ(client.Read().body, "b");
  EXPECT_EQ(client.Read().body, "POST /echo c");
}

TEST_F(HttpServerTest, ARequestThatComesWhileAnotherIsAnsweredWaits) {
  Start();
  RawHttpClient client = Connect();
  client.Send(Get("/held"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  call->BeginStream();
  call->Write("begun");
  // As many bytes as it reads ahead, and more.
  const std::string large(256 << 10, 'x');
  client.Send(Post("/echo", "next") + Post("/echo", large));
  call->EndStream();
  EXPECT_EQ(client.Read().body, "begun");
  EXPECT_EQ(client.Read().body, "POST /echo next");
  EXPECT_EQ(client.Read().body, "POST /echo " + large);
}

TEST_F(HttpServerTest, ARequestMayComeByteByByte) {
  Start();
  RawHttpClient client = Connect();
  for (const char byte :
       Post("/echo", "slow") + Chunked("/echo", "2\r\nch\r\n3\r\nunk\r\n0\r\n\r\n")) {
    client.Send({&byte, 1});
  }
  EXPECT_EQ(client.Read().body, "POST /echo slow");
  EXPECT_EQ(client.Read().body, "POST /echo chunk");
}

TEST_F(HttpServerTest, HeadGetsNoBody) {
  Start();
  RawHttpClient client = Connect();
  client.Send("HEAD /echo HTTP/1.1\r\n\r\n" + Get("/echo"));
  const HttpAnswer head = client.Read(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("Content-Length"), "11");
  EXPECT_EQ(client.Read().body, "GET /echo ");
}

// A client would wait for the body that the head announces.
TEST_F(HttpServerTest, ARefusalAfterHeadHasItsBody) {
  Start();
  RawHttpClient client = Connect();
  client.Send("HEAD /echo HTTP/1.1\r\n\r\nnonsense\r\n\r\n");
  EXPECT_EQ(client.Read(true).status, 200);
  const HttpAnswer refusal = client.Read();
  EXPECT_EQ(refusal.status, 400) << refusal.body;
  EXPECT_NE(refusal.body.find("malformed HTTP request"), std::string::npos);
}

TEST_F(HttpServerTest, ARefusalKnowsThePathOfItsOwnRequestOnly) {
  options_.max_body_bytes = 10;
  Start();
  RawHttpClient client = Connect();
  client.Send(Get("/echo") + "nonsense\r\n\r\n");
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_EQ(client.Read().header("X-Path"), "");
  RawHttpClient other = Connect();
  other.Send("POST /large HTTP/1.1\r\nContent-Length: 11\r\n\r\n");
  EXPECT_EQ(other.Read().header("X-Path"), "/large");
}

TEST_F(HttpServerTest, ExpectContinueIsToldToGoOn) {
  Start();
  RawHttpClient client = Connect();
  client.Send("POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  const HttpAnswer go_on = client.Read();
  EXPECT_EQ(go_on.status, 100);
  EXPECT_TRUE(go_on.headers.empty());
  client.Send("ok");
  EXPECT_EQ(client.Read().body, "POST /echo ok");
}

TEST_F(HttpServerTest, OldHttpIsAnsweredAndClosed) {
  Start();
  RawHttpClient client = Connect();
  client.Send(Post("/echo", "old", "1.0"));
  EXPECT_EQ(client.Read().body, "POST /echo old");
  EXPECT_EQ(client.ReadToEnd(), "");
}

TEST_F(HttpServerTest, ManyConnectionsAreSharedOutToTheThreads) {
  options_.threads = 2;
  Start();
  std::set<std::thread::id> threads;
  std::vector<RawHttpClient> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(Connect());
    clients.back().Send(Get("/held"));
    const auto call = handler_.Next();
    ASSERT_NE(call, nullptr);
    threads.insert(call->thread);
    std::thread::id posted_to;
    call->Do([&](HttpExchange&) { posted_to = std::this_thread::get_id(); });
    EXPECT_EQ(posted_to, call->thread) << "Post keeps to the exchange's thread";
    call->Respond({.body = "x"});
    EXPECT_EQ(clients.back().Read().body, "x");
  }
  EXPECT_EQ(threads.size(), 2u);
}

TEST_F(HttpServerTest, PostsOfOneThreadRunInTheirOrder) {
  Start();
  RawHttpClient client = Connect();
  client.Send(Get("/held"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  std::vector<int> order, sorted;
  for (int i = 0; i < 1000; ++i) {
    call->exchange->Post([&order, i] { order.push_back(i); });
    sorted.push_back(i);
  }
  call->Respond({});  // comes after them
  EXPECT_EQ(order, sorted);
}

// Streams.

TEST_F(HttpServerTest, AStreamGoesOutAsItIsWritten) {
  Start();
  RawHttpClient client = Connect();
  client.Send(Get("/held"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  call->BeginStream();
  call->Write("data: 1\n\n");
  call->Write("");  // would end the chunks
  const std::string head =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
      "X-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string first = head + "9\r\ndata: 1\n\n\r\n";
  EXPECT_EQ(client.ReadBytes(first.size()), first) << "before the next is written";
  call->Write("data: 2\n\n");
  EXPECT_EQ(client.ReadBytes(14), "9\r\ndata: 2\n\n\r\n");
  call->EndStream();
  EXPECT_EQ(client.ReadBytes(5), "0\r\n\r\n");
  client.Send(Post("/echo", "and the connection is kept"));
  EXPECT_EQ(client.Read().body, "POST /echo and the connection is kept");
}

TEST_F(HttpServerTest, AStreamToOldHttpEndsWithItsConnection) {
  Start();
  RawHttpClient client = Connect();
  client.Send(Post("/held", "", "1.0"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  call->Do([](HttpExchange& on) {
    on.BeginStream("text/event-stream", {});
    on.Write("data: 1\n\n");
    on.EndStream();
  });
  const HttpAnswer answer = client.Read();
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.ends_with_connection);
  EXPECT_EQ(answer.body, "data: 1\n\n");
}

// Then nothing is left to send, and only the end of the connection tells the client.
TEST_F(HttpServerTest, AStreamToOldHttpEndsAlsoWhenItsLastBytesAreOutAlready) {
  Start();
  RawHttpClient client = Connect();
  client.Send(Post("/held", "", "1.0"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  call->BeginStream();
  call->Write("data: 1\n\n");
  std::string seen;
  while (!seen.ends_with("data: 1\n\n")) {
    const std::string more = client.ReadBytes(1);
    ASSERT_FALSE(more.empty()) << seen;
    seen += more;
  }
  call->EndStream();
  EXPECT_EQ(client.ReadToEnd(), "");
}

TEST_F(HttpServerTest, AClientThatLeavesAStreamIsNoticed) {
  Start();
  using Leave = void (RawHttpClient::*)();
  for (const Leave leave : {Leave(&RawHttpClient::Close), Leave(&RawHttpClient::Reset),
                            Leave(&RawHttpClient::HalfClose)}) {
    RawHttpClient client = Connect();
    client.Send(Get("/held"));
    const auto call = handler_.Next();
    ASSERT_NE(call, nullptr);
    call->BeginStream();
    call->Write("data: 1\n\n");
    client.ReadBytes(1);
    EXPECT_EQ(call->gone, 0);
    (client.*leave)();
    EXPECT_TRUE(Await([&] { return call->gone > 0; }));
    // Now all calls have no effect.
    call->Do([](HttpExchange& on) {
      on.OnGone([] { ADD_FAILURE() << "it has gone already"; });
      on.OnEnding([] { ADD_FAILURE() << "it has gone already"; });
      on.SetTimer(Seconds(0), [] { ADD_FAILURE() << "it has gone already"; });
      on.Write("data: 2\n\n");
      on.EndStream();
      on.Respond({});
    });
    EXPECT_TRUE(AwaitConnections(0));
    EXPECT_EQ(call->gone, 1);
  }
  ExpectServes();
}

TEST_F(HttpServerTest, AClientThatLeavesBeforeItsAnswerBeganIsNoticed) {
  Start();
  RawHttpClient client = Connect();
  client.Send(Post("/held", "x"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  client.Close();
  EXPECT_TRUE(Await([&] { return call->gone > 0; }));
  EXPECT_TRUE(AwaitConnections(0));
}

TEST_F(HttpServerTest, LeavingAfterTheWholeAnswerIsNothingToTheOwner) {
  Start();
  RawHttpClient client = Connect();
  client.Send(Get("/held"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  call->Respond({.body = "whole"});
  EXPECT_EQ(client.Read().body, "whole");
  client.Close();
  EXPECT_TRUE(AwaitConnections(0));
  EXPECT_EQ(call->gone, 0);
}

// Cost of a client that does not read.

TEST_F(HttpServerTest, ANonReaderIsCutAtTheLimitOfWhatIsUnsent) {
  options_.max_unsent_bytes = 10'000;
  Start();
  RawHttpClient client = Connect();
  client.Send(Get("/held"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  call->BeginStream();
  call->Write(std::string(9'000, 'a'));
  client.ReadBytes(9'000);
  EXPECT_EQ(call->gone, 0) << "within the limit";
  call->Do([&](HttpExchange& on) {
    on.Write(std::string(10'001, 'b'));
    EXPECT_EQ(call->gone, 0) << "later: its owner is in the middle of its work";
  });
  EXPECT_TRUE(Await([&] { return call->gone > 0; }));
  EXPECT_EQ(metrics_.slow_reader_cut.value(), 1u);
  EXPECT_EQ(metrics_.memory_refused.value(), 0u);
}

TEST_F(HttpServerTest, TheLastBytesOfAStreamMayBeMoreThanTheBuffer) {
  options_.max_unsent_bytes = 1000;
  Start();
  RawHttpClient client = Connect();
  client.Send(Get("/held"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  call->Do([](HttpExchange& on) {
    on.BeginStream("text/event-stream", {});
    on.Write("first");
    on.EndStream(std::string(1'000'000, 'x'));
  });
  EXPECT_EQ(client.Read().body.size(), 1'000'005u);
  EXPECT_EQ(metrics_.slow_reader_cut.value(), 0u);
}

// It lacks bytes, so the client must see that it was cut.
TEST_F(HttpServerTest, AStreamThatWasCutIsNeverEndedAsIfItWereWhole) {
  options_.max_unsent_bytes = 1000;
  Start();
  RawHttpClient client = Connect();
  client.Send(Get("/held"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  call->Do([](HttpExchange& on) {
    on.BeginStream("text/event-stream", {});
    on.Write(std::string(1001, 'x'));
    on.Write("data: [DONE]\n\n");  // dropped
    on.EndStream();
  });
  const std::optional<std::string> wire = client.ReadToEnd();
  ASSERT_TRUE(wire.has_value());
  std::string_view rest = *wire;
  HttpAnswer answer;
  EXPECT_EQ(TakeHttpAnswer(rest, false, true, answer), TookAnswer::kPart) << answer.body;
  EXPECT_TRUE(Await([&] { return call->gone > 0; }));
}

TEST_F(HttpServerTest, AWriteThatTakesTooLongIsCut) {
  options_.max_unsent_bytes = 64 << 20;
  options_.send_buffer_bytes = 4096;
  options_.write_deadline = kSoon;
  Start();
  RawHttpClient client = Connect(4096);
  client.Send(Get("/held"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  call->BeginStream();
  call->Write(std::string(16 << 20, 'x'));  // more than the kernel buffers
  EXPECT_TRUE(Await([&] { return call->gone > 0; }));
  EXPECT_EQ(metrics_.slow_reader_cut.value(), 1u);
}

TEST_F(HttpServerTest, UnsentBytesAreOfTheMemoryBudgetButForTheFirst) {
  options_.max_unsent_bytes = 64 << 20;
  options_.send_buffer_bytes = 4096;
  options_.free_unsent_bytes = 1 << 20;
  Start();
  MemoryLease others(memory_);
  others.Set(memory_.limit());  // no budget is left
  RawHttpClient client = Connect(4096);
  client.Send(Get("/held"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  call->BeginStream();
  call->Write(std::string(1 << 19, 'a'));
  EXPECT_EQ(memory_.in_use(), memory_.limit());
  EXPECT_EQ(metrics_.slow_reader_cut.value(), 0u) << "a little is free";
  call->Write(std::string(16 << 20, 'b'));
  EXPECT_TRUE(Await([&] { return call->gone > 0; }));
  EXPECT_EQ(metrics_.memory_refused.value(), 1u);
  EXPECT_EQ(metrics_.slow_reader_cut.value(), 1u);
}

TEST_F(HttpServerTest, UnsentBytesAreCountedUntilTheyAreSent) {
  options_.max_unsent_bytes = 64 << 20;
  options_.send_buffer_bytes = 4096;
  Start();
  RawHttpClient client = Connect(64 << 10);
  client.Send(Get("/held"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  call->BeginStream();
  call->Write(std::string(4 << 20, 'x'));
  EXPECT_GT(memory_.in_use(), 3 << 20);
  call->EndStream();
  EXPECT_EQ(client.Read().body.size(), 4u << 20);
  EXPECT_TRUE(Await([&] { return memory_.in_use() == 0; }));
}

// Refusals.

TEST_F(HttpServerTest, MalformedRequestsAreRefused) {
  Start();
  for (const char* request : {
           "nonsense\r\n\r\n",
           "GET\r\n\r\n",
           "GET /echo\r\n\r\n",
           "GET  HTTP/1.1\r\n\r\n",
           "G(T /echo HTTP/1.1\r\n\r\n",
           " GET /echo HTTP/1.1\r\n\r\n",
           "GET /ec\x01ho HTTP/1.1\r\n\r\n",
           "GET /echo HTTP/9.9\r\n\r\n",
           "GET /echo HTTP/2.0\r\n\r\n",
           "GET /echo HTTP/1.2\r\n\r\n",
           "GET /echo HTTX/1.1\r\n\r\n",
           "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
           "GET /echo HTTP/1.1\r\nno colon\r\n\r\n",
           "GET /echo HTTP/1.1\r\na space : x\r\n\r\n",
           "GET /echo HTTP/1.1\r\nX: a\x01z\r\n\r\n",
           "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
           "POST /echo HTTP/1.1\r\nContent-Length: minus\r\n\r\n",
           "POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
           "POST /echo HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
       }) {
    ExpectRefused(request, 400, "malformed HTTP request: ");
  }
  EXPECT_TRUE(handler_.heads().empty()) << "the handler is not asked about them";
  ExpectServes();
}

// Every server must find the same end of a request. Otherwise bytes that a proxy before us treats
// as a body would be a request to us.
TEST_F(HttpServerTest, BodiesWhoseLengthIsAmbiguousAreRefused) {
  Start();
  for (const char* headers : {
           "Content-Length: 5\r\nContent-Length: 6\r\n",
           "Content-Length: 5, 6\r\n",
           "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
           "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
           "Transfer-Encoding: gzip\r\n",
           "Transfer-Encoding: identity\r\n",
           "Transfer-Encoding: xchunked\r\n",
           "Transfer-Encoding: chunked, gzip\r\n",
           "Transfer-Encoding: \r\n",
       }) {
    ExpectRefused("POST /echo HTTP/1.1\r\n" + std::string(headers) + "\r\n" + Get("/echo"), 400,
                  "malformed HTTP request: ");
  }
  EXPECT_EQ(handler_.refusals(), std::vector<int>(9, 400));
}

TEST_F(HttpServerTest, MalformedChunksAreRefused) {
  Start();
  for (const char* chunks : {
           "zz\r\nabc\r\n0\r\n\r\n",
           "\r\nabc\r\n",
           "-3\r\nabc\r\n0\r\n\r\n",
           "3\r\nabcd\r\n0\r\n\r\n",
           "3 abc\r\n0\r\n\r\n",
           "fffffffffffffffff\r\nabc\r\n",
       }) {
    ExpectRefused(Chunked("/echo", chunks), 400, "malformed HTTP request: ");
  }
  RawHttpClient client = Connect();
  client.Send(Chunked("/echo", "3;ext=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"));
  EXPECT_EQ(client.Read().body, "POST /echo abc0123456789");
}

TEST_F(HttpServerTest, HeadersBeyondTheirLimitAreRefused) {
  options_.max_header_bytes = 1000;
  Start();
  const auto with = [](size_t bytes) {
    const std::string rest = "GET /echo HTTP/1.1\r\nX: \r\n\r\n";
    std::string request = rest;
    return request.insert(rest.size() - 4, std::string(bytes - rest.size(), 'x'));
  };
  ExpectRefused(with(1100), 431, "larger than 1000 bytes");
  // Without an end, and in the request line.
  ExpectRefused(with(5000).substr(0, 4000), 431, "larger than 1000 bytes");
  ExpectRefused("GET /" + std::string(4000, 'x'), 431, "larger than 1000 bytes");
  RawHttpClient client = Connect();
  client.Send(with(990));
  EXPECT_EQ(client.Read().status, 200);
}

TEST_F(HttpServerTest, BodiesBeyondTheirLimitAreRefused) {
  options_.max_body_bytes = 1000;
  Start();
  // Refused by the announced length, before the body is sent.
  ExpectRefused("POST /echo HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", 413,
                "larger than 1000 bytes");
  ExpectRefused("POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n", 413,
                "larger than 1000 bytes");
  ExpectRefused(Chunked("/echo", "3e9\r\n"), 413, "larger than 1000 bytes");
  ExpectRefused(Chunked("/echo", "3e8\r\n" + std::string(1000, 'x') + "\r\n1\r\ny\r\n0\r\n\r\n"),
                413, "larger than 1000 bytes");
  const std::string largest(1000, 'x');
  RawHttpClient client = Connect();
  client.Send(Post("/echo", largest) + Chunked("/echo", "3e8\r\n" + largest + "\r\n0\r\n\r\n"));
  EXPECT_EQ(client.Read().body, "POST /echo " + largest);
  EXPECT_EQ(client.Read().body, "POST /echo " + largest);
}

// If the server closed at once, it would answer further bytes with a reset, and the client might
// lose the refusal. So the server keeps reading for two seconds. A slower client tries again.
TEST_F(HttpServerTest, ARefusalIsNoResetToAClientThatIsStillSending) {
  options_.max_body_bytes = 1000;
  Start();
  bool all_sent = false;
  for (int i = 0; i < 20 && !all_sent; ++i) {
    const MonotonicTime began = MonotonicClock::now();
    RawHttpClient client = Connect();
    client.Send("POST /echo HTTP/1.1\r\nContent-Length: 4000000\r\n\r\n");
    EXPECT_EQ(client.Read().status, 413);
    EXPECT_EQ(client.ReadToEnd(), "");
    all_sent = true;
    for (int chunk = 0; chunk < 100; ++chunk) all_sent &= client.Send(std::string(10'000, 'x'));
    if (MonotonicClock::now() - began < std::chrono::seconds(1)) break;
  }
  EXPECT_TRUE(all_sent);
}

TEST_F(HttpServerTest, ABodyThatMemoryHasNoRoomForIsRefused) {
  Start();
  MemoryLease others(memory_);
  others.Set(memory_.limit(MemoryBudget::Use::kRequest) - 100);
  ExpectRefused("POST /echo HTTP/1.1\r\nContent-Length: 101\r\n\r\n", 429, "of 101 bytes");
  ExpectRefused(Chunked("/echo", "3e8\r\n" + std::string(1000, 'x')), 429, "no memory is free");
  EXPECT_EQ(metrics_.memory_refused.value(), 2u);
  RawHttpClient client = Connect();
  client.Send(Post("/echo", std::string(100, 'x')));
  EXPECT_EQ(client.Read().status, 200);
}

TEST_F(HttpServerTest, AHeadThatIsRefusedIsAnsweredAndAConnectionWithoutItsBodyIsClosed) {
  Start();
  RawHttpClient client = Connect();
  client.Send(Get("/refused") + Get("/echo"));
  const HttpAnswer refused = client.Read();
  EXPECT_EQ(refused.status, 404);
  EXPECT_EQ(refused.body, "refused");
  EXPECT_EQ(refused.header("X-Why"), "its head");
  EXPECT_EQ(client.Read().body, "GET /echo ") << "it had no body: the connection goes on";
  ExpectRefused("POST /refused HTTP/1.1\r\nContent-Length: 100\r\n\r\nGET /echo HTTP/1.1\r\n\r\n",
                404);
  EXPECT_EQ(handler_.waiting(), 0u);
}

TEST_F(HttpServerTest, AnyMethodIsTheHandlersToJudge) {
  Start();
  RawHttpClient client = Connect();
  for (const std::string method : {"BREW", "DELETE", "OPTIONS", "get"}) {
    client.Send(method + " /echo HTTP/1.1\r\n\r\n");
    EXPECT_EQ(client.Read().body, method + " /echo ");
    EXPECT_EQ(handler_.heads().back().method, method);
  }
}

TEST_F(HttpServerTest, AContentLengthThatIsTooSmallMakesANextRequestThatIsRefused) {
  Start();
  RawHttpClient client = Connect();
  client.Send("POST /echo HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcdefghi\r\n\r\n");
  EXPECT_EQ(client.Read().body, "POST /echo abc");
  EXPECT_EQ(client.Read().status, 400);
  EXPECT_EQ(client.ReadToEnd(), "");
}

TEST_F(HttpServerTest, WhatEndsInTheMiddleOfARequestIsClosedInSilence) {
  Start();
  for (const char* part : {
           "",
           "GET /ec",
           "GET /echo HTTP/1.1\r\nHost",
           "POST /echo HTTP/1.1\r\nContent-Length: 9\r\n\r\nshort",
           "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
       }) {
    RawHttpClient client = Connect();
    client.Send(part);
    client.HalfClose();
    EXPECT_EQ(client.ReadToEnd(), "") << part;
    RawHttpClient other = Connect();
    other.Send(part);
    other.Reset();
  }
  EXPECT_TRUE(AwaitConnections(0));
  EXPECT_TRUE(handler_.refusals().empty());
  EXPECT_EQ(handler_.waiting(), 0u);
  ExpectServes();
}

// Its own time limits.

TEST_F(HttpServerTest, AnIdleConnectionIsClosedInSilence) {
  options_.idle_deadline = kSoon;
  Start();
  EXPECT_EQ(Connect().ReadToEnd(), "") << "before its first request";
  // A client that is slower than the deadline tries again.
  std::optional<RawHttpClient> client;
  HttpAnswer answer;
  for (int i = 0; i < 1000 && answer.status == 0; ++i) {
    client.emplace(Connect());
    client->Send(Post("/echo", "x"));
    answer = client->Read();
  }
  EXPECT_EQ(answer.body, "POST /echo x");
  EXPECT_EQ(client->ReadToEnd(), "") << "between requests";
  EXPECT_TRUE(handler_.refusals().empty());
}

TEST_F(HttpServerTest, ARequestThatDoesNotArriveInTimeIsRefused) {
  options_.read_deadline = kSoon;
  Start();
  ExpectRefused("POST /ec", 408, "did not arrive in time");
  ExpectRefused("POST /echo HTTP/1.1\r\nContent-Length: 9\r\n\r\nab", 408);
  ExpectRefused(Chunked("/echo", "5\r\nab"), 408);
  RawHttpClient client = Connect();
  client.Send("POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.Read().status, 100);
  EXPECT_EQ(client.Read().status, 408);
  EXPECT_EQ(client.ReadToEnd(), "");
  EXPECT_EQ(handler_.refusals(), std::vector<int>(4, 408));
}

// An answer may take any time.
TEST_F(HttpServerTest, TheDeadlinesOfReadingEndWithTheRequest) {
  options_.read_deadline = options_.idle_deadline = Seconds(0.5);
  Start();
  RawHttpClient client = Connect();
  client.Send(Get("/held"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  // Longer than both deadlines, by the same clock.
  std::latch later(1);
  call->Do([&](HttpExchange& on) { on.SetTimer(Seconds(1), [&] { later.count_down(); }); });
  later.wait();
  EXPECT_EQ(call->gone, 0);
  call->Respond({.body = "late"});
  EXPECT_EQ(client.Read().body, "late");
}

TEST_F(HttpServerTest, ATimerRunsUnlessItIsReplacedOrCancelledOrTheAnswerIsWhole) {
  Start();
  RawHttpClient client = Connect();
  RawHttpClient other = Connect();
  client.Send(Get("/held"));
  const auto call = handler_.Next();
  other.Send(Get("/held"));
  const auto clock = handler_.Next();
  ASSERT_TRUE(call && clock);
  std::string ran;
  // Runs after all timers that were due at the time of the call, because timers run in the order of
  // their times.
  const auto await_all = [&] {
    std::latch over(1);
    clock->Do([&](HttpExchange& on) { on.SetTimer(Seconds(0.002), [&] { over.count_down(); }); });
    over.wait();
  };
  call->Do([&](HttpExchange& on) { on.SetTimer(Seconds(0), [&] { ran += "one "; }); });
  await_all();
  EXPECT_EQ(ran, "one ");
  call->Do([&](HttpExchange& on) {
    on.SetTimer(Seconds(0), [&] { ran += "replaced "; });
    on.SetTimer(Seconds(0.001), [&] { ran += "two "; });
  });
  await_all();
  EXPECT_EQ(ran, "one two ");
  call->Do([&](HttpExchange& on) {
    on.SetTimer(Seconds(0), [&] { ran += "cancelled "; });
    on.CancelTimer();
  });
  await_all();
  EXPECT_EQ(ran, "one two ");
  call->Do([&](HttpExchange& on) {
    on.SetTimer(Seconds(0.001), [&] { ran += "too late "; });
    on.Respond({});
  });
  await_all();
  EXPECT_EQ(ran, "one two ");
}

// The timer is due, but work that was queued before runs first and changes it: a token that arrived
// in time must not end the request.
TEST_F(HttpServerTest, ATimerThatIsDueCanStillBeReplacedAndCancelled) {
  Start();
  RawHttpClient client = Connect();
  client.Send(Get("/held"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  bool stale = false;
  for (const bool replaces : {true, false}) {
    std::latch over(1);
    call->exchange->Post([&, replaces] {
      call->exchange->SetTimer(Seconds(0), [&] { stale = true; });
      call->exchange->Post([&, replaces] {
        if (replaces) return call->exchange->SetTimer(Seconds(0.002), [&] { over.count_down(); });
        call->exchange->CancelTimer();
        call->exchange->Post([&] { call->exchange->Post([&] { over.count_down(); }); });
      });
    });
    over.wait();
    EXPECT_FALSE(stale) << replaces;
    stale = false;
  }
}

// The limit on connections.

TEST_F(HttpServerTest, ConnectionsBeyondTheLimitWaitForOthersToClose) {
  options_.max_connections = 1;
  std::atomic<double> most = 0;
  handler_.on_echo = [&] { most = std::max(most.load(), metrics_.connections.value()); };
  Start();
  RawHttpClient first = Connect();
  first.Send(Post("/echo", "0"));
  EXPECT_EQ(first.Read().body, "POST /echo 0");
  RawHttpClient second = Connect();
  ASSERT_TRUE(second.is_connected()) << "the listen queue takes it";
  second.Send(Get("/held"));
  for (int i = 0; i < 100; ++i) {
    first.Send(Post("/echo", "x"));
    EXPECT_EQ(first.Read().body, "POST /echo x");
  }
  EXPECT_EQ(handler_.waiting(), 0u);
  EXPECT_EQ(most, 1);
  first.Close();
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  call->Respond({.body = "its turn"});
  EXPECT_EQ(second.Read().body, "its turn");
}

// The end.

TEST_F(HttpServerTest, DrainingClosesIdleConnectionsAndReturns) {
  Start();
  RawHttpClient fresh = Connect();
  RawHttpClient kept = Connect();
  kept.Send(Get("/echo"));
  kept.Read();
  ASSERT_TRUE(AwaitConnections(2));
  Signal();
  EXPECT_EQ(fresh.ReadToEnd(), "");
  EXPECT_EQ(kept.ReadToEnd(), "");
  AwaitReturn();
  leaving_.wait();
  draining_.wait();
}

TEST_F(HttpServerTest, DrainingLetsStreamsEndAndTakesNoNewConnection) {
  departure_.drain = kNever;
  Start();
  RawHttpClient idle = Connect();
  ASSERT_TRUE(AwaitConnections(1));
  RawHttpClient client = Connect();
  client.Send(Get("/held") + Get("/echo"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  call->BeginStream();
  call->Write("before ");
  Signal();
  EXPECT_EQ(idle.ReadToEnd(), "");  // so it drains
  EXPECT_FALSE(Connect().is_connected());
  EXPECT_EQ(call->ending, 0);
  call->Write("after");
  EXPECT_FALSE(has_returned_);
  call->EndStream();
  EXPECT_EQ(client.Read().body, "before after");
  EXPECT_EQ(client.ReadToEnd(), "") << "the next request is another server's";
  client.Close();
  AwaitReturn();
}

TEST_F(HttpServerTest, ARequestThatIsBeingReadAtTheDrainIsStillAnswered) {
  departure_.drain = kNever;
  Start();
  RawHttpClient idle = Connect();
  ASSERT_TRUE(AwaitConnections(1));
  RawHttpClient client = Connect();
  client.Send("POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\n");
  handler_.AwaitHeads(1);
  Signal();
  EXPECT_EQ(idle.ReadToEnd(), "");
  client.Send("whole");
  const HttpAnswer answer = client.Read();
  EXPECT_EQ(answer.body, "POST /echo whole");
  EXPECT_EQ(answer.header("Connection"), "close");
  EXPECT_EQ(client.ReadToEnd(), "");
  client.Close();
  AwaitReturn();
}

TEST_F(HttpServerTest, ALameDuckStillServesAndSendsItsClientsAway) {
  departure_.lame_duck = kNever;
  Start();
  RawHttpClient kept = Connect();
  kept.Send(Get("/echo"));
  EXPECT_EQ(kept.Read().header("Connection"), "");
  Signal();
  leaving_.wait();
  RawHttpClient fresh = Connect();
  for (RawHttpClient* client : {&kept, &fresh}) {
    client->Send(Post("/echo", "x"));
    const HttpAnswer answer = client->Read();
    EXPECT_EQ(answer.body, "POST /echo x");
    EXPECT_EQ(answer.header("Connection"), "close");
    EXPECT_EQ(client->ReadToEnd(), "");
  }
  RawHttpClient streams = Connect();
  streams.Send(Get("/held"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  call->Do([](HttpExchange& on) {
    on.BeginStream("text/plain", {});
    on.Write("x");
    on.EndStream();
  });
  EXPECT_EQ(streams.Read().header("Connection"), "close");
  EXPECT_FALSE(draining_.try_wait());
}

TEST_F(HttpServerTest, TheDrainFollowsTheLameDuck) {
  departure_.lame_duck = kSoon;
  Start();
  RawHttpClient idle = Connect();
  ASSERT_TRUE(AwaitConnections(1));
  Signal();
  draining_.wait();
  EXPECT_TRUE(leaving_.try_wait());
  EXPECT_EQ(idle.ReadToEnd(), "");
  AwaitReturn();
}

TEST_F(HttpServerTest, WhatIsNotAnsweredWhenTheDrainIsOverIsEndedByItsOwner) {
  departure_.drain = kSoon;
  options_.end_deadline = kNever;
  handler_.on_ending = [](HttpExchange& on) {
    on.Write("the end");
    on.EndStream();
  };
  Start();
  RawHttpClient client = Connect();
  client.Send(Get("/held"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  call->BeginStream();
  RawHttpClient reading = Connect();
  reading.Send("POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\n");
  handler_.AwaitHeads(2);
  Signal();
  EXPECT_EQ(client.Read().body, "the end");
  EXPECT_EQ(client.ReadToEnd(), "");
  const HttpAnswer refused = reading.Read();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.body, "the gateway is stopping");
  EXPECT_EQ(reading.ReadToEnd(), "");
  client.Close();
  reading.Close();
  AwaitReturn();
  EXPECT_EQ(call->ending, 1);
  EXPECT_EQ(call->gone, 0);
}

TEST_F(HttpServerTest, AnOwnerThatDoesNotEndItHoldsTheServerForTheEndDeadlineAtMost) {
  departure_.drain = kSoon;
  options_.end_deadline = kSoon;
  Start();
  RawHttpClient client = Connect();
  client.Send(Get("/held"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  Signal();
  AwaitReturn();
  EXPECT_EQ(call->ending, 1);
}

TEST_F(HttpServerTest, ASecondSignalEndsItAtOnce) {
  departure_.drain = kNever;
  Start();
  RawHttpClient client = Connect();
  client.Send(Get("/held"));
  const auto call = handler_.Next();
  ASSERT_NE(call, nullptr);
  Signal();
  draining_.wait();
  EXPECT_FALSE(has_returned_);
  Signal();
  AwaitReturn();
}

// The address.

TEST_F(HttpServerTest, AnAddressThatCannotBeHadIsToldWithTheReason) {
  Start();
  HttpOptions taken = options_;
  taken.port = port_;
  const auto second = HttpServer::Listen(taken, handler_, memory_, metrics_, log_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(second.status().message().find("127.0.0.1:" + std::to_string(taken.port) +
                                           ": Address already in use"),
            std::string::npos)
      << second.status().message();
  HttpOptions no_address = options_;
  no_address.host = "no address";
  const auto third = HttpServer::Listen(no_address, handler_, memory_, metrics_, log_);
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(third.status().message().find("'no address'"), std::string::npos);
}

}  // namespace
}  // namespace janus::gateway
