// Only this file and rpc/page_server.cc include Boost, because Beast takes seconds to compile.
#include "dataplane/gateway/http_server.h"

#include <sys/socket.h>

#include <atomic>
#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cstdio>
#include <thread>
#include <unordered_set>

namespace janus::gateway {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;

asio::steady_timer::duration ToTimer(Seconds seconds) {
  return std::chrono::duration_cast<asio::steady_timer::duration>(seconds);
}

class Session;

// What the sessions of one thread share. Confined to that thread, except `work`.
struct Shard {
  std::unordered_set<Session*> sessions;  // outlives `io`, which destroys sessions at its end
  asio::io_context io{1};
};

struct Shared {
  const HttpOptions& options;
  HttpHandler& handler;
  MemoryBudget& memory;
  GatewayMetrics& metrics;
  std::atomic<bool> leaving = false;   // connections are not reused for another request; stays true
  std::atomic<bool> draining = false;  // new connections are refused
  std::atomic<bool> ending = false;    // the drain is over: answers must be completed now
  std::atomic<size_t> connections = 0;
  std::function<void()> on_closed{};  // thread-safe
};

// One connection: reads a request, hands it out, writes the answer, and repeats. While an answer is
// made it keeps reading, to notice that the client leaves. Bytes that it reads are kept for the
// next request.
class Session final : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, Shard& shard, Shared& shared)
      : socket_(std::move(socket)),
        timer_(shard.io),
        shard_(shard),
        shared_(shared),
        output_memory_(shared.memory) {
    shard_.sessions.insert(this);
    shared_.metrics.connections.Add(1);
  }
  ~Session() {
    shard_.sessions.erase(this);
    shared_.metrics.connections.Add(-1);
    shared_.connections.fetch_sub(1);
    shared_.on_closed();
  }

  void ReadHead();
  // Closes if there is no request. Otherwise the current answer is the last one.
  void Drain();
  // The drain is over: completes the current answer, and refuses a request that is still being
  // read.
  void End();
  void Abort() { Close(); }

  // Called by the exchange.
  void Respond(const HttpReply& reply);
  void BeginStream(std::string_view content_type, const HttpHeaders& headers);
  void Write(std::string_view bytes);
  void EndStream(std::string_view last);
  void OnGone(std::function<void()> handler) { on_gone_ = std::move(handler); }
  void OnEnding(std::function<void()> handler) { on_ending_ = std::move(handler); }
  asio::io_context& io() { return shard_.io; }
  uint64_t request_number() const { return request_number_; }

 private:
  enum class State : uint8_t { kIdle, kReading, kAnswering, kFlushing, kLingering, kClosed };

  void OnHead(error_code error);
  void TakeHead();
  void ReadBody();
  void ReadBodyOn();
  void OnBody(error_code error);
  bool HoldBody(uint64_t bytes);
  int64_t OutputBytes() const;
  void Refuse(int status, std::string message);
  void WatchForLeaving();
  void Flush();
  void OnFlushed(error_code error);
  void AnswerIsWhole();
  void AnswerIsSent();
  void Linger();
  void Discard();
  void Gone();
  void Close();
  void Deadline(Seconds after, void (Session::*then)());
  void OnReadDeadline();
  void OnWriteDeadline();
  void Append(std::string_view bytes);  // to a stream
  void AppendHead(int status, std::string_view content_type, const HttpHeaders& headers);
  void AppendHeaders(const HttpHeaders& headers);

  tcp::socket socket_;
  asio::steady_timer timer_;
  Shard& shard_;
  Shared& shared_;
  beast::flat_buffer input_;
  std::optional<http::request_parser<http::string_body>> parser_;
  HttpHead head_;               // of the request that is being read
  HttpHeaders answer_headers_;  // for its answer, including refusals
  State state_ = State::kIdle;
  uint64_t request_number_ = 0;
  bool keep_alive_ = false;
  bool head_only_ = false;
  bool chunked_ = false;
  bool watching_ = false;
  bool writing_ = false;
  bool cut_ = false;
  std::shared_ptr<Session> self_;  // while answering, when no read keeps it alive
  std::string unsent_;             // waits until sending_ is written
  std::string sending_;
  std::optional<MemoryLease> body_memory_;  // while a body is read
  MemoryLease output_memory_;
  size_t discarded_ = 0;
  std::function<void()> on_gone_;
  std::function<void()> on_ending_;
};

// The handler's side of a request. It may outlive the connection.
class Exchange final : public HttpExchange, public std::enable_shared_from_this<Exchange> {
 public:
  explicit Exchange(const std::shared_ptr<Session>& session)
      : io_(session->io()),
        session_(session),
        number_(session->request_number()),
        timer_(session->io()) {}

  void Respond(HttpReply reply) override {
    if (auto session = Mine()) session->Respond(reply);
  }
  void BeginStream(std::string_view content_type, const HttpHeaders& headers) override {
    if (auto session = Mine()) session->BeginStream(content_type, headers);
  }
  void Write(std::string_view bytes) override {
    if (auto session = Mine()) session->Write(bytes);
  }
  void EndStream(std::string_view last) override {
    if (auto session = Mine()) session->EndStream(last);
  }
  void OnGone(std::function<void()> handler) override {
    if (auto session = Mine()) session->OnGone(std::move(handler));
  }
  void OnEnding(std::function<void()> handler) override {
    if (auto session = Mine()) session->OnEnding(std::move(handler));
  }
  void SetTimer(Seconds delay, std::function<void()> handler) override {
    timer_.expires_after(ToTimer(delay));
    timer_.async_wait([self = weak_from_this(), handler = std::move(handler),
                       number = ++timer_number_](error_code error) {
      const auto exchange = self.lock();
      if (!error && exchange && exchange->timer_number_ == number && exchange->Mine()) handler();
    });
  }
  void CancelTimer() override {
    ++timer_number_;
    timer_.cancel();
  }
  void Post(std::function<void()> work) override { asio::post(io_, std::move(work)); }

 private:
  // The session, while it answers this request.
  std::shared_ptr<Session> Mine() {
    auto session = session_.lock();
    return session && session->request_number() == number_ ? session : nullptr;
  }

  asio::io_context& io_;
  const std::weak_ptr<Session> session_;
  const uint64_t number_;
  asio::steady_timer timer_;
  // Number of the current timer. An older timer that is already due cannot be cancelled, so it
  // compares this.
  uint64_t timer_number_ = 0;
};

void Session::Deadline(Seconds after, void (Session::*then)()) {
  timer_.expires_after(ToTimer(after));
  timer_.async_wait([self = weak_from_this(), then](error_code error) {
    const auto session = self.lock();
    if (!error && session) (session.get()->*then)();
  });
}

void Session::ReadHead() {
  if (shared_.draining) return Close();
  state_ = State::kIdle;
  // Reset from the last request; this one may be refused before its head is known.
  head_only_ = false;
  answer_headers_.clear();
  head_ = {};
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(shared_.options.max_header_bytes));
  parser_->body_limit(shared_.options.max_body_bytes);
  if (input_.size() > 0) {
    state_ = State::kReading;
    Deadline(shared_.options.read_deadline, &Session::OnReadDeadline);
    http::async_read_header(
        socket_, input_, *parser_,
        [self = shared_from_this()](error_code error, size_t) { self->OnHead(error); });
    return;
  }
  // The pause between requests has its own deadline, so the first bytes are read separately.
  Deadline(shared_.options.idle_deadline, &Session::Close);
  socket_.async_read_some(input_.prepare(4096),
                          [self = shared_from_this()](error_code error, size_t bytes) {
                            if (error) return self->Close();
                            self->input_.commit(bytes);
                            self->ReadHead();
                          });
}

void Session::OnReadDeadline() {
  if (state_ == State::kReading) Refuse(408, "the request did not arrive in time");
}

void Session::OnHead(error_code error) {
  if (state_ != State::kReading) return;
  // A body that is announced as too large is an error after the last header.
  if (parser_->is_header_done() || error == http::error::body_limit) TakeHead();
  if (error == http::error::body_limit) {
    return Refuse(413, "the body is larger than " + std::to_string(shared_.options.max_body_bytes) +
                           " bytes");
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return Refuse(431, "the request's headers are larger than " +
                           std::to_string(shared_.options.max_header_bytes) + " bytes");
  }
  // The client left in the middle, or the socket failed.
  if (error == http::error::end_of_stream || error == http::error::partial_message) return Close();
  if (error && error.category() != http::make_error_code(http::error::bad_method).category()) {
    return Close();
  }
  if (error) return Refuse(400, "malformed HTTP request: " + error.message());

  const auto& request = parser_->get();
  // The parser would treat this request as one without a body, and its body as the next request.
  if (request.count(http::field::transfer_encoding) > 0 && !parser_->chunked()) {
    return Refuse(400, "malformed HTTP request: its Transfer-Encoding is not chunked");
  }
  keep_alive_ = request.keep_alive();
  head_only_ = request.method() == http::verb::head;
  if (std::optional<HttpReply> refused = shared_.handler.JudgeHead(head_)) {
    // The body, if any, is not read, so the connection cannot be reused.
    refused->close = !parser_->is_done();
    ++request_number_;
    state_ = State::kAnswering;
    return Respond(*refused);
  }
  ReadBody();
}

void Session::TakeHead() {
  const auto& request = parser_->get();
  const auto field = [&](http::field name) { return std::string(request[name]); };
  head_.method = std::string(request.method_string());
  head_.path = std::string(request.target().substr(0, request.target().find('?')));
  head_.authorization = field(http::field::authorization);
  head_.api_key = std::string(request["x-api-key"]);
  head_.content_encoding = field(http::field::content_encoding);
  head_.request_id = std::string(request["X-Request-Id"]);
  head_.traceparent = std::string(request["traceparent"]);
  head_.origin = field(http::field::origin);
  head_.requested_method = field(http::field::access_control_request_method);
  head_.requested_headers = field(http::field::access_control_request_headers);
  answer_headers_ = shared_.handler.AnswerHeaders(head_);
}

void Session::ReadBody() {
  const auto& request = parser_->get();
  const bool expects = beast::iequals(request[http::field::expect], "100-continue");
  body_memory_.emplace(shared_.memory);
  // Refuse an announced size before the body is sent; otherwise refuse it when it has grown too
  // large.
  if (const auto announced = parser_->content_length(); announced && !HoldBody(*announced)) return;
  const auto read = [self = shared_from_this()] {
    self->Deadline(self->shared_.options.read_deadline, &Session::OnReadDeadline);
    self->ReadBodyOn();
  };
  if (!expects || parser_->is_done()) return read();
  writing_ = true;
  sending_ = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_, asio::buffer(sending_),
                    [self = shared_from_this(), read](error_code error, size_t) {
                      self->writing_ = false;
                      self->sending_.clear();
                      if (error) return self->Close();
                      if (self->state_ == State::kReading) return read();
                      self->Flush();  // it was refused meanwhile
                    });
}

// Takes the body's bytes from the budget. False: there was no room, and the request was refused.
bool Session::HoldBody(uint64_t bytes) {
  if (body_memory_->TrySet(static_cast<int64_t>(bytes), MemoryBudget::Use::kRequest)) return true;
  body_memory_.reset();
  parser_.reset();  // together with the partial body; no read is pending
  shared_.metrics.memory_refused.Add();
  Refuse(429, "no memory is free for a body of " + std::to_string(bytes) +
                  " bytes: requests together may hold " +
                  std::to_string(shared_.memory.limit(MemoryBudget::Use::kRequest)));
  return false;
}

void Session::ReadBodyOn() {
  if (parser_->is_done() || parser_->content_length()) {
    http::async_read(
        socket_, input_, *parser_,
        [self = shared_from_this()](error_code error, size_t) { self->OnBody(error); });
    return;
  }
  http::async_read_some(
      socket_, input_, *parser_, [self = shared_from_this()](error_code error, size_t) {
        if (error || self->state_ != State::kReading || self->parser_->is_done()) {
          return self->OnBody(error);
        }
        const size_t held = self->parser_->get().body().capacity();
        if (self->HoldBody(held)) self->ReadBodyOn();
      });
}

void Session::OnBody(error_code error) {
  if (state_ != State::kReading) return;
  if (error == http::error::body_limit) {
    return Refuse(413, "the body is larger than " + std::to_string(shared_.options.max_body_bytes) +
                           " bytes");
  }
  if (error == http::error::partial_message || error == http::error::end_of_stream) return Close();
  if (error && error.category() != http::make_error_code(http::error::bad_method).category()) {
    return Close();
  }
  if (error) return Refuse(400, "malformed HTTP request: " + error.message());
  timer_.cancel();
  const auto& request = parser_->get();
  HttpHead head = std::move(head_);
  std::string body = std::move(parser_->get().body());
  MemoryLease memory = std::move(*body_memory_);
  body_memory_.reset();
  chunked_ = request.version() >= 11;
  ++request_number_;
  state_ = State::kAnswering;
  self_ = shared_from_this();
  // Free the request's buffers: an open stream keeps only what it needs.
  parser_.reset();
  input_.shrink_to_fit();
  WatchForLeaving();
  shared_.handler.Handle(std::make_shared<Exchange>(shared_from_this()), std::move(head),
                         std::move(body), std::move(memory));
}

void Session::Refuse(int status, std::string message) {
  timer_.cancel();
  ++request_number_;
  state_ = State::kAnswering;
  HttpReply reply = shared_.handler.Refusal(head_.path, status, std::move(message));
  reply.close = true;
  Respond(reply);
}

void Session::WatchForLeaving() {
  // Further pipelined requests wait in the kernel. Then only a write notices that the client has
  // left.
  constexpr size_t kMaxAhead = 64 << 10;
  if (watching_ || input_.size() >= kMaxAhead) return;
  watching_ = true;
  socket_.async_read_some(input_.prepare(4096),
                          [self = shared_from_this()](error_code error, size_t bytes) {
                            self->watching_ = false;
                            if (self->state_ == State::kClosed || self->state_ == State::kLingering)
                              return;
                            if (error == asio::error::operation_aborted) {
                              if (self->state_ == State::kIdle) self->ReadHead();
                              return;
                            }
                            if (!error) {
                              self->input_.commit(bytes);
                              if (self->state_ == State::kIdle) return self->ReadHead();
                              return self->WatchForLeaving();
                            }
                            // The complete answer may still be on its way to a client that
                            // only reads.
                            if (self->state_ == State::kAnswering) return self->Gone();
                            if (self->state_ == State::kIdle) return self->Close();
                            self->keep_alive_ = false;
                          });
}

void Session::AppendHead(int status, std::string_view content_type, const HttpHeaders& headers) {
  unsent_ += "HTTP/1.1 " + std::to_string(status) + " ";
  unsent_ += std::string(http::obsolete_reason(static_cast<http::status>(status)));
  unsent_ += "\r\nContent-Type: ";
  unsent_ += content_type;
  if (!keep_alive_) unsent_ += "\r\nConnection: close";
  unsent_ += "\r\n";
  AppendHeaders(answer_headers_);
  AppendHeaders(headers);
}

void Session::AppendHeaders(const HttpHeaders& headers) {
  for (const auto& [name, value] : headers) {
    unsent_.append(name).append(": ").append(value).append("\r\n");
  }
}

void Session::Respond(const HttpReply& reply) {
  if (state_ != State::kAnswering) return;
  if (reply.close || shared_.leaving) keep_alive_ = false;
  AppendHead(reply.status, reply.content_type, reply.headers);
  unsent_ += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n\r\n";
  if (!head_only_) unsent_ += reply.body;
  output_memory_.Set(OutputBytes());  // the answer is there already: not to be refused
  AnswerIsWhole();
}

void Session::BeginStream(std::string_view content_type, const HttpHeaders& headers) {
  if (state_ != State::kAnswering) return;
  if (shared_.leaving || !chunked_) keep_alive_ = false;
  AppendHead(200, content_type, headers);
  unsent_ += "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
  unsent_ += chunked_ ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n";
  Flush();
}

void Session::Append(std::string_view bytes) {
  if (chunked_) {
    char size[20];
    std::snprintf(size, sizeof(size), "%zx\r\n", bytes.size());
    unsent_ += size;
  }
  unsent_ += bytes;
  if (chunked_) unsent_ += "\r\n";
}

void Session::Write(std::string_view bytes) {
  if (state_ != State::kAnswering || cut_ || bytes.empty()) return;
  Append(bytes);
  const bool has_memory = output_memory_.TrySet(OutputBytes(), MemoryBudget::Use::kAnswer);
  if (!has_memory) shared_.metrics.memory_refused.Add();
  if (unsent_.size() > shared_.options.max_unsent_bytes || !has_memory) {
    cut_ = true;
    shared_.metrics.slow_reader_cut.Add();
    // Do it later, because the caller is in the middle of its work.
    asio::post(shard_.io, [self = shared_from_this(), number = request_number_] {
      if (self->request_number_ == number) self->Gone();
    });
    return;
  }
  Flush();
}

// The unsent bytes that count in the memory budget. A small part is free, so that under pressure
// only clients that do not read are cut.
int64_t Session::OutputBytes() const {
  const size_t held = unsent_.size() + sending_.size();
  const size_t free = shared_.options.free_unsent_bytes;
  return static_cast<int64_t>(held > free ? held - free : 0);
}

void Session::EndStream(std::string_view last) {
  // A cut stream lacks bytes, so its end must not look like one.
  if (state_ != State::kAnswering || cut_) return;
  if (!last.empty()) Append(last);
  output_memory_.Set(OutputBytes());
  if (chunked_) unsent_ += "0\r\n\r\n";
  AnswerIsWhole();
}

void Session::AnswerIsWhole() {
  const auto self = shared_from_this();
  state_ = State::kFlushing;
  self_.reset();
  on_gone_ = nullptr;
  on_ending_ = nullptr;
  ++request_number_;  // a holder of the old exchange can not act any more
  // A stream that ends with its connection may have sent all it had.
  if (!writing_ && unsent_.empty()) return AnswerIsSent();
  Flush();
}

void Session::Flush() {
  if (writing_ || unsent_.empty()) return;
  writing_ = true;
  sending_.swap(unsent_);
  Deadline(shared_.options.write_deadline, &Session::OnWriteDeadline);
  asio::async_write(
      socket_, asio::buffer(sending_),
      [self = shared_from_this()](error_code error, size_t) { self->OnFlushed(error); });
}

void Session::OnWriteDeadline() {
  if (!writing_) return;
  shared_.metrics.slow_reader_cut.Add();
  Gone();
}

void Session::OnFlushed(error_code error) {
  writing_ = false;
  sending_.clear();
  output_memory_.Set(OutputBytes());
  if (state_ == State::kClosed) return;
  if (error) return Gone();
  timer_.cancel();
  if (!unsent_.empty()) return Flush();
  // An idle stream keeps a small buffer, not the largest it ever had.
  if (sending_.capacity() > 16u << 10) sending_.shrink_to_fit();
  if (state_ == State::kFlushing) AnswerIsSent();
}

void Session::AnswerIsSent() {
  if (!keep_alive_) return Linger();
  state_ = State::kIdle;
  if (watching_) {
    // The read that watched becomes the read of the next request.
    if (shared_.draining) return Close();
    Deadline(shared_.options.idle_deadline, &Session::Close);
    // If the next request is here already, end the read: its handler then parses that request.
    error_code ignored;
    if (input_.size() > 0) socket_.cancel(ignored);
    return;
  }
  ReadHead();
}

// Closing with unread bytes would reset the connection, and the client might never see the answer.
// So this signals the end of the output and keeps reading for a moment.
void Session::Linger() {
  error_code ignored;
  // While the server ends, do not wait for clients without need.
  if (shared_.ending && input_.size() == 0 && socket_.available(ignored) == 0) return Close();
  state_ = State::kLingering;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  Deadline(Seconds(2), &Session::Close);
  socket_.cancel(ignored);  // a read may still use the buffer that Discard uses
  asio::post(shard_.io, [self = shared_from_this()] {
    self->input_.clear();
    self->Discard();
  });
}

void Session::Discard() {
  constexpr size_t kMost = 8 << 20;
  if (state_ != State::kLingering) return;
  socket_.async_read_some(input_.prepare(4096),
                          [self = shared_from_this()](error_code error, size_t bytes) {
                            if (error == asio::error::operation_aborted) return self->Discard();
                            self->discarded_ += bytes;
                            if (error || self->discarded_ > kMost) return self->Close();
                            self->Discard();
                          });
}

void Session::Gone() {
  const auto handler = std::exchange(on_gone_, nullptr);
  on_ending_ = nullptr;
  ++request_number_;
  Close();
  if (handler) handler();
}

void Session::Close() {
  if (state_ == State::kClosed) return;
  const auto self = shared_from_this();
  state_ = State::kClosed;
  self_.reset();
  timer_.cancel();
  body_memory_.reset();
  error_code ignored;
  socket_.close(ignored);
}

void Session::Drain() {
  if (state_ == State::kIdle) return Close();
  keep_alive_ = false;
}

void Session::End() {
  if (state_ == State::kReading) return Refuse(503, "the gateway is stopping");
  if (state_ != State::kAnswering) return;  // a complete answer is sent anyway
  if (const auto handler = std::exchange(on_ending_, nullptr)) handler();
}

class Server final : public HttpServer {
 public:
  Server(const HttpOptions& options, HttpHandler& handler, MemoryBudget& memory,
         GatewayMetrics& metrics, Logger log)
      : options_(options),
        log_(std::move(log)),
        shared_{.options = options, .handler = handler, .memory = memory, .metrics = metrics},
        shards_(static_cast<size_t>(options.threads)),
        acceptor_(shards_[0].io),
        accept_timer_(shards_[0].io),
        signals_(shards_[0].io),
        departure_timer_(shards_[0].io) {
    shared_.on_closed = [this] { asio::post(shards_[0].io, [this] { OnClosed(); }); };
  }

  Status Bind() {
    error_code error;
    const auto address =
        asio::ip::make_address(options_.host == "localhost" ? "127.0.0.1" : options_.host, error);
    if (error) {
      return InvalidArgument("--listen: '" + options_.host +
                             "' is not an address (want 127.0.0.1, 0.0.0.0, [::1], ...)");
    }
    const tcp::endpoint endpoint(address, static_cast<uint16_t>(options_.port));
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(4096, error);
    if (error) {
      return Unavailable("cannot listen on " + options_.host + ":" + std::to_string(options_.port) +
                         ": " + error.message() +
                         "; choose another with --listen HOST:PORT (port 0 takes a free one)");
    }
    return OkStatus();
  }

  int port() const override { return acceptor_.local_endpoint().port(); }

  void Run(StopSignals& stop, Departure departure) override {
    departure_ = std::move(departure);
    signals_.assign(stop.fd());
    OnSignal(stop, [this, &stop](int signal) {
      Leave(signal);
      OnSignal(stop, [this](int) { Stop(); });
    });
    Accept();
    std::vector<asio::executor_work_guard<asio::io_context::executor_type>> guards;
    guards.reserve(shards_.size());
    for (Shard& shard : shards_) guards.push_back(asio::make_work_guard(shard.io));
    std::vector<std::jthread> threads;
    for (size_t i = 1; i < shards_.size(); ++i) {
      threads.emplace_back([this, i] { shards_[i].io.run(); });
    }
    shards_[0].io.run();
    signals_.release();  // signals_ does not own the descriptor
  }

  ~Server() override {
    // Sessions left over by a cut drain still own sockets and point to the shards.
    for (Shard& shard : shards_) {
      shard.io.restart();
      const std::vector<Session*> sessions(shard.sessions.begin(), shard.sessions.end());
      for (Session* session : sessions) session->Abort();
      shard.io.poll();
    }
    shared_.on_closed = [] {};
  }

 private:
  void Accept() {
    if (shared_.draining || accepting_) return;
    if (shared_.connections.load() >= options_.max_connections) return;  // OnClosed resumes
    accepting_ = true;
    Shard& shard = shards_[next_shard_];
    next_shard_ = (next_shard_ + 1) % shards_.size();
    acceptor_.async_accept(shard.io, [this, &shard](error_code error, tcp::socket socket) {
      accepting_ = false;
      if (shared_.draining) return;
      if (!error) {
        accept_fails_ = false;
        shared_.connections.fetch_add(1);
        Open(shard, std::move(socket));
      } else if (error != asio::error::connection_aborted) {
        return PauseAccepting(error);
      }
      Accept();
    });
  }

  // The process or the system is out of descriptors, buffers or memory. The connection stays in the
  // listen queue, so accepting again at once would only spin.
  void PauseAccepting(error_code error) {
    shared_.metrics.accept_errors.Add();
    if (!std::exchange(accept_fails_, true)) {
      log_.Warning("cannot accept connections; retrying", {{"reason", error.message()}});
    }
    accept_timer_.expires_after(std::chrono::milliseconds(100));
    accept_timer_.async_wait([this](error_code cancelled) {
      if (!cancelled) Accept();
    });
  }

  void Open(Shard& shard, tcp::socket socket) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::send_buffer_size(options_.send_buffer_bytes), ignored);
    asio::post(shard.io, [this, &shard, socket = std::move(socket)]() mutable {
      std::make_shared<Session>(std::move(socket), shard, shared_)->ReadHead();
    });
  }

  // Runs on the first shard's thread.
  void OnClosed() {
    if (shared_.draining && shared_.connections.load() == 0) return Stop();
    Accept();
  }

  void OnSignal(StopSignals& stop, std::function<void(int)> action) {
    signals_.async_wait(asio::posix::stream_descriptor::wait_read,
                        [this, &stop, action = std::move(action)](error_code error) mutable {
                          if (error) return;
                          if (const std::optional<int> signal = stop.Next()) return action(*signal);
                          OnSignal(stop, std::move(action));
                        });
  }

  void Leave(int signal) {
    log_.Info("leaving", {{"signal", signal},
                          {"connections", static_cast<int64_t>(shared_.connections.load())},
                          {"lame_duck_seconds", departure_.lame_duck.count()}});
    departure_.on_leaving();
    shared_.leaving = true;
    if (departure_.lame_duck.count() == 0) return StartDrain();
    departure_timer_.expires_after(ToTimer(departure_.lame_duck));
    departure_timer_.async_wait([this](error_code error) {
      if (!error) StartDrain();
    });
  }

  void StartDrain() {
    log_.Info("draining", {{"connections", static_cast<int64_t>(shared_.connections.load())},
                           {"deadline_seconds", departure_.drain.count()}});
    departure_.on_draining();
    shared_.draining = true;
    error_code ignored;
    acceptor_.close(ignored);
    accept_timer_.cancel();
    ForEachSession(&Session::Drain);
    if (shared_.connections.load() == 0) return Stop();
    departure_timer_.expires_after(ToTimer(departure_.drain));
    departure_timer_.async_wait([this](error_code error) {
      if (error) return;
      log_.Warning("drain deadline passed: ending open answers",
                   {{"connections", static_cast<int64_t>(shared_.connections.load())}});
      End();
    });
  }

  void End() {
    shared_.ending = true;
    ForEachSession(&Session::End);
    departure_timer_.expires_after(ToTimer(options_.end_deadline));
    departure_timer_.async_wait([this](error_code error) {
      if (!error) Stop();  // the remaining clients do not read
    });
  }

  // Runs on each session's own thread.
  void ForEachSession(void (Session::*action)()) {
    for (Shard& shard : shards_) {
      asio::post(shard.io, [&shard, action] {
        // The action may end a session and so remove it from the set.
        std::vector<std::shared_ptr<Session>> sessions;
        sessions.reserve(shard.sessions.size());
        for (Session* session : shard.sessions) sessions.push_back(session->shared_from_this());
        for (const auto& session : sessions) (session.get()->*action)();
      });
    }
  }

  void Stop() {
    for (Shard& shard : shards_) shard.io.stop();
  }

  const HttpOptions& options_;
  const Logger log_;
  Shared shared_;
  std::vector<Shard> shards_;
  tcp::acceptor acceptor_;
  asio::steady_timer accept_timer_;
  asio::posix::stream_descriptor signals_;
  asio::steady_timer departure_timer_;
  Departure departure_;
  size_t next_shard_ = 0;
  bool accepting_ = false;
  bool accept_fails_ = false;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::Listen(const HttpOptions& options,
                                                       HttpHandler& handler, MemoryBudget& memory,
                                                       GatewayMetrics& metrics, Logger log) {
  auto server = std::make_unique<Server>(options, handler, memory, metrics, std::move(log));
  JANUS_RETURN_IF_ERROR(server->Bind());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace janus::gateway
