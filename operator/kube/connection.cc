#include "operator/kube/connection.h"

#include <fcntl.h>
#include <httplib.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <csignal>

#include "common/fd.h"
#include "common/tls/verify_server.h"
#include "operator/kube/retry_after.h"

namespace janus::control {
namespace {

template <auto kFree>
struct FreeBy {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using BioPtr = std::unique_ptr<BIO, FreeBy<BIO_free>>;
using X509Ptr = std::unique_ptr<X509, FreeBy<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>>;

BioPtr Bytes(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Returns the first error in OpenSSL's queue of this thread, and clears the queue.
std::string TlsError() {
  const unsigned long code = ERR_get_error();  // NOLINT: OpenSSL's type
  ERR_clear_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "unknown reason" : reason;
}

// All certificates of a PEM text.
std::vector<X509Ptr> ReadCertificates(const std::string& pem) {
  std::vector<X509Ptr> out;
  const BioPtr bytes = Bytes(pem);
  while (X509* const one = PEM_read_bio_X509(bytes.get(), nullptr, nullptr, nullptr)) {
    out.emplace_back(one);
  }
  ERR_clear_error();  // reading past the last certificate leaves an error
  return out;
}

// Refuses keys that need a password.
int NoPassword(char*, int, int, void*) {
  return -1;
}

Status TrustOnly(SSL_CTX* context, const std::string& ca) {
  if (ca.empty()) {
    SSL_CTX_set_default_verify_paths(context);
    return OkStatus();
  }
  const std::vector<X509Ptr> roots = ReadCertificates(ca);
  if (roots.empty()) return FailedPrecondition("the CA's PEM holds no certificate");
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  for (const X509Ptr& root : roots) X509_STORE_add_cert(store, root.get());
  // Trust each certificate of the file, as Go programs do: a file may hold an intermediate CA
  // without the root that signed it.
  X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN);
  ERR_clear_error();
  return OkStatus();
}

Status Present(SSL_CTX* context, const Credentials& credentials) {
  if (credentials.certificate.empty()) return OkStatus();
  const std::vector<X509Ptr> chain = ReadCertificates(credentials.certificate);
  if (chain.empty()) return FailedPrecondition("the client certificate's PEM holds none");
  const KeyPtr key(
      PEM_read_bio_PrivateKey(Bytes(credentials.key).get(), nullptr, NoPassword, nullptr));
  if (key == nullptr) return FailedPrecondition("the client key cannot be read: " + TlsError());
  if (SSL_CTX_use_certificate(context, chain[0].get()) != 1 ||
      SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
    return FailedPrecondition("the client key is not of the certificate: " + TlsError());
  }
  for (size_t i = 1; i < chain.size(); ++i) SSL_CTX_add1_chain_cert(context, chain[i].get());
  return OkStatus();
}

// An address of the host, for a connection that sends another name in its handshake.
std::optional<std::string> AddressOf(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return std::nullopt;
  char text[NI_MAXHOST];
  const int failed =
      getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  freeaddrinfo(found);
  return failed == 0 ? std::optional<std::string>(text) : std::nullopt;
}

std::optional<Seconds> RetryAfter(const httplib::Response& response) {
  return ParseRetryAfter(response.get_header_value("Retry-After"),
                         response.get_header_value("Date"), std::chrono::system_clock::now());
}

// Sockets use the system's clock.
MonotonicTime After(Seconds time) {
  return MonotonicClock::now() + std::chrono::duration_cast<MonotonicClock::duration>(time);
}

// A write to a connection that the server has reset raises SIGPIPE, with TLS too. While this object
// lives, the process does not receive it.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    sigemptyset(&broken_pipe_);
    sigaddset(&broken_pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &broken_pipe_, &before_);
  }
  ~NoBrokenPipe() {
    if (sigismember(&before_, SIGPIPE) == 0) {
      const timespec at_once = {};
      sigtimedwait(&broken_pipe_, nullptr, &at_once);
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  sigset_t broken_pipe_;
  sigset_t before_;
};

// Unknown errors count as sent.
bool IsBeforeSending(httplib::Error error) {
  switch (error) {
    case httplib::Error::Connection:
    case httplib::Error::BindIPAddress:
    case httplib::Error::SSLConnection:
    case httplib::Error::SSLLoadingCerts:
    case httplib::Error::SSLServerVerification:
    case httplib::Error::ConnectionTimeout:
      return true;
    default:
      return false;
  }
}

bool IsDone(int http_status) {
  return http_status >= 200 && http_status < 300;
}

class HttpConnection final : public Connection {
 public:
  HttpConnection(const ClusterConfig& config, Deadlines& deadlines)
      : host_(config.host),
        server_name_(config.use_tls && !config.tls_server_name.empty() ? config.tls_server_name
                                                                       : config.host),
        deadlines_(deadlines) {}

  // Closes the TLS connection; the server may be gone already.
  ~HttpConnection() override {
    const NoBrokenPipe no_broken_pipe;
    client_.reset();
  }

  Status Open(const ClusterConfig& config, const Credentials& credentials) {
    if (config.use_tls) {
      auto client = std::make_unique<httplib::SSLClient>(server_name_, config.port);
      SSL_CTX* const context = client->ssl_context();
      if (context == nullptr) return Internal("no TLS context: " + TlsError());
      if (!config.insecure_skip_tls_verify) {
        JANUS_RETURN_IF_ERROR(TrustOnly(context, credentials.ca));
        JANUS_RETURN_IF_ERROR(VerifyServer(context, server_name_, &untrusted_));
      }
      JANUS_RETURN_IF_ERROR(Present(context, credentials));
      client_ = std::move(client);
    } else if (host_.starts_with(kUnixHost)) {
      client_ = std::make_unique<httplib::ClientImpl>(host_.substr(kUnixHost.size()), config.port);
      client_->set_address_family(AF_UNIX);
    } else {
      client_ = std::make_unique<httplib::ClientImpl>(server_name_, config.port);
    }
    client_->enable_server_certificate_verification(false);
    client_->set_keep_alive(true);
    client_->set_url_encode(false);
    client_->set_tcp_nodelay(!host_.starts_with(kUnixHost));
    client_->set_socket_options([this](int socket) { OnSocket(socket); });
    return OkStatus();
  }

  std::variant<HttpReply, HttpFailure> Exchange(const HttpRequest& request, Seconds timeout,
                                                const std::stop_token& stop,
                                                const BodySink* sink) override;
  bool IsAlive() const override;

 private:
  // State of one exchange.
  struct Progress {
    HttpReply reply;
    bool is_too_large = false;
    bool had_enough = false;
  };

  void OnSocket(int socket);
  httplib::Request Prepare(const HttpRequest& request, const BodySink* sink, Progress& progress);
  void SetTimeouts(Seconds timeout);
  HttpFailure FailureOf(httplib::Error error, const Progress& progress, bool was_cut,
                        bool was_stopped) const;

  const std::string host_;
  const std::string server_name_;
  Deadlines& deadlines_;
  std::string untrusted_;  // certificate error of the last handshake; empty: none
  std::unique_ptr<httplib::ClientImpl> client_;

  // Our duplicate of the socket's descriptor, since the library may close its own at any time.
  Fd socket_;
  Deadlines::Id deadline_id_ = 0;  // during an exchange with a socket
  MonotonicTime deadline_;         // of the exchange

  // Shared by an exchange and the thread that stops it.
  Mutex stop_mu_;
  bool is_stopped_ JANUS_GUARDED_BY(stop_mu_) = false;
  int stop_socket_ JANUS_GUARDED_BY(stop_mu_) = -1;  // socket_ while there is one
};

void HttpConnection::OnSocket(int socket) {
  if (deadline_id_ != 0) deadlines_.Remove(deadline_id_);  // for an earlier address of the host
  {
    const MutexLock lock(stop_mu_);
    socket_ = Fd(fcntl(socket, F_DUPFD_CLOEXEC, 0));
    stop_socket_ = socket_.get();
    if (is_stopped_) shutdown(socket, SHUT_RDWR);
  }
  deadline_id_ = deadlines_.Add(socket, deadline_);
}

bool HttpConnection::IsAlive() const {
  if (!socket_) return true;  // not connected yet
  // The server owes no data on an idle connection, so readable data means that it closes.
  pollfd wait = {socket_.get(), POLLIN, 0};
  return poll(&wait, 1, 0) == 0;
}

void HttpConnection::SetTimeouts(Seconds timeout) {
  // The library's limits for single reads are only a fallback: Deadlines ends the call earlier.
  const time_t most = static_cast<time_t>(std::clamp(timeout.count(), 0.0, 86400.0)) + 2;
  client_->set_connection_timeout(
      std::min<time_t>(most, static_cast<time_t>(kConnectTimeout.count())));
  client_->set_read_timeout(most);
  client_->set_write_timeout(most);
}

httplib::Request HttpConnection::Prepare(const HttpRequest& request, const BodySink* sink,
                                         Progress& progress) {
  httplib::Request out;
  out.method = request.method;
  out.path = request.target;
  for (const auto& [name, value] : request.headers) out.headers.emplace(name, value);
  out.headers.emplace("Accept-Encoding", "identity");
  if (!request.body.empty()) {
    out.body = request.body;
    out.headers.emplace("Content-Type", request.content_type);
  }
  out.response_handler = [sink, &progress](const httplib::Response& response) {
    progress.reply.status = response.status;
    progress.reply.retry_after = RetryAfter(response);
    const auto [warning, end] = response.headers.equal_range("Warning");
    for (auto one = warning; one != end; ++one) progress.reply.warnings.push_back(one->second);
    if (sink != nullptr && IsDone(response.status)) sink->begin();
    return true;
  };
  out.content_receiver = [this, sink, &progress](const char* data, size_t size, uint64_t,
                                                 uint64_t) {
    if (sink != nullptr && IsDone(progress.reply.status)) {
      deadlines_.Move(deadline_id_, After(sink->silence));
      progress.had_enough = !sink->take({data, size});
      return !progress.had_enough;
    }
    progress.is_too_large = progress.reply.body.size() + size > kMaxBodyBytes;
    if (!progress.is_too_large) progress.reply.body.append(data, size);
    return !progress.is_too_large;
  };
  return out;
}

HttpFailure HttpConnection::FailureOf(httplib::Error error, const Progress& progress, bool was_cut,
                                      bool was_stopped) const {
  using Kind = HttpFailure::Kind;
  if (progress.had_enough) return {Kind::kSinkHadEnough, "the reader had enough"};
  if (progress.is_too_large) {
    return {Kind::kTooLarge, "the reply has more than " + std::to_string(kMaxBodyBytes) + " bytes"};
  }
  const std::string who = server_name_ == host_ ? host_ : host_ + " (" + server_name_ + ")";
  const std::string said = who + ": " + httplib::to_string(error);
  const bool is_sent = !IsBeforeSending(error);
  if (was_stopped) return {Kind::kCancelled, who + ": stopped"};
  if (!is_sent) {
    if (!untrusted_.empty()) return {Kind::kUntrusted, who + ": certificate: " + untrusted_};
    return {Kind::kNotSent, was_cut ? who + ": not connected in time" : said};
  }
  if (was_cut) return {Kind::kTimedOut, who + ": no answer in time"};
  return {Kind::kBroken, said};
}

std::variant<HttpReply, HttpFailure> HttpConnection::Exchange(const HttpRequest& request,
                                                              Seconds timeout,
                                                              const std::stop_token& stop,
                                                              const BodySink* sink) {
  SetTimeouts(sink == nullptr ? timeout : std::max(timeout, sink->silence));
  if (server_name_ != host_ && !socket_) {
    const std::optional<std::string> address = AddressOf(host_);
    if (!address) return HttpFailure{HttpFailure::Kind::kNotSent, host_ + ": no such host"};
    client_->set_hostname_addr_map({{server_name_, *address}});
  }
  deadline_ = After(timeout);
  if (socket_) deadline_id_ = deadlines_.Add(socket_.get(), deadline_);
  untrusted_.clear();
  {
    const MutexLock lock(stop_mu_);
    is_stopped_ = false;
  }
  Progress progress;
  httplib::Request sent = Prepare(request, sink, progress);
  httplib::Response response;
  httplib::Error error = httplib::Error::Success;
  bool is_ok = false;
  {
    const NoBrokenPipe no_broken_pipe;
    const std::stop_callback cut(stop, [this] {
      const MutexLock lock(stop_mu_);
      is_stopped_ = true;
      if (stop_socket_ >= 0) shutdown(stop_socket_, SHUT_RDWR);
    });
    is_ok = client_->send(sent, response, error);
  }
  const bool was_cut = deadline_id_ != 0 && deadlines_.Remove(deadline_id_);
  deadline_id_ = 0;
  bool was_stopped = false;
  {
    const MutexLock lock(stop_mu_);
    was_stopped = is_stopped_;
  }
  if (is_ok) return std::move(progress.reply);
  return FailureOf(error, progress, was_cut, was_stopped);
}

}  // namespace

Result<std::unique_ptr<Connection>> Connection::Create(const ClusterConfig& config,
                                                       const Credentials& credentials,
                                                       Deadlines& deadlines) {
  auto out = std::make_unique<HttpConnection>(config, deadlines);
  if (Status opened = out->Open(config, credentials); !opened.ok()) {
    return std::move(opened).Annotate(config.origin);
  }
  return std::unique_ptr<Connection>(std::move(out));
}

}  // namespace janus::control
