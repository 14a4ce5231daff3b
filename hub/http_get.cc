#include "hub/http_get.h"

#include <fcntl.h>
#include <httplib.h>
#include <sys/socket.h>

#include <charconv>
#include <memory>

#include "common/fd.h"
#include "common/mutex.h"
#include "common/tls/verify_server.h"
#include "hub/lookup.h"

namespace janus::hub {
namespace {

constexpr time_t kConnectSeconds = 10;
// That are tried; a hub has two or more behind one name.
constexpr size_t kMostAddresses = 4;
// Of the body of an error; the rest is not read.
constexpr size_t kMaxDropped = size_t{1} << 16;

std::optional<Seconds> ReadSeconds(const std::string& text) {
  int seconds = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, seconds);
  if (text.empty() || read.ec != std::errc() || read.ptr != end || seconds < 0) return std::nullopt;
  return Seconds(seconds);
}

HttpHead ReadHead(const httplib::Response& response) {
  HttpHead out;
  out.status = response.status;
  out.location = response.get_header_value("Location");
  out.content_range = response.get_header_value("Content-Range");
  out.error_code = response.get_header_value("X-Error-Code");
  out.retry_after = ReadSeconds(response.get_header_value("Retry-After"));
  return out;
}

bool HasBody(int status) {
  return status == 200 || status == 206;
}

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

// The socket of a request, which another thread may shut down.
class StoppableSocket {
 public:
  void Set(int socket) {
    const MutexLock lock(mu_);
    // The library may close its descriptor at any time; this one stays ours.
    socket_ = Fd(fcntl(socket, F_DUPFD_CLOEXEC, 0));
    if (is_stopped_) shutdown(socket_.get(), SHUT_RDWR);
  }
  void Stop() {
    const MutexLock lock(mu_);
    is_stopped_ = true;
    if (socket_) shutdown(socket_.get(), SHUT_RDWR);
  }

 private:
  Mutex mu_;
  bool is_stopped_ JANUS_GUARDED_BY(mu_) = false;
  Fd socket_ JANUS_GUARDED_BY(mu_);
};

struct Progress {
  std::optional<HttpHead> head;
  size_t dropped = 0;
  bool had_enough = false;
  bool is_cut_error = false;  // the body of an error, which is not wanted whole
};

httplib::Request Prepare(const HttpGet& request, const HttpSink& sink, Progress& progress) {
  httplib::Request out;
  out.method = "GET";
  out.path = request.url.target;
  for (const auto& [name, value] : request.headers) out.headers.emplace(name, value);
  out.headers.emplace("Accept-Encoding", "identity");
  out.headers.emplace("Connection", "close");
  out.response_handler = [&](const httplib::Response& response) {
    progress.head = ReadHead(response);
    if (!HasBody(response.status)) return true;
    progress.had_enough = !sink.begin(*progress.head);
    return !progress.had_enough;
  };
  out.content_receiver = [&](const char* data, size_t size, uint64_t, uint64_t) {
    if (!HasBody(progress.head->status)) {
      progress.dropped += size;
      progress.is_cut_error = progress.dropped > kMaxDropped;
      return !progress.is_cut_error;
    }
    progress.had_enough = !sink.take({data, size});
    return !progress.had_enough;
  };
  return out;
}

// Sends the request to one address of the host.
std::variant<HttpHead, HttpFailure> SendTo(const std::string& address, const HttpGet& request,
                                           const HttpSink& sink, const std::stop_token& stop) {
  using Kind = HttpFailure::Kind;
  const Url& url = request.url;
  std::string untrusted;  // the certificate's error
  std::unique_ptr<httplib::ClientImpl> client;
  if (url.use_tls) {
    auto secure = std::make_unique<httplib::SSLClient>(url.host, url.port);
    if (secure->ssl_context() == nullptr) {
      return HttpFailure{Kind::kNotConnected, url.host + ": no TLS context"};
    }
    SSL_CTX_set_default_verify_paths(secure->ssl_context());
    if (Status status = VerifyServer(secure->ssl_context(), url.host, &untrusted); !status.ok()) {
      return HttpFailure{Kind::kUntrusted, url.host + ": " + status.message()};
    }
    client = std::move(secure);
  } else {
    client = std::make_unique<httplib::ClientImpl>(url.host, url.port);
  }
  client->set_hostname_addr_map({{url.host, address}});
  client->enable_server_certificate_verification(false);
  client->set_url_encode(false);
  client->set_decompress(false);
  client->set_tcp_nodelay(true);
  client->set_connection_timeout(kConnectSeconds);
  const auto silence = std::chrono::duration_cast<std::chrono::microseconds>(request.silence);
  client->set_read_timeout(silence);
  client->set_write_timeout(silence);
  StoppableSocket socket;
  client->set_socket_options([&](int fd) { socket.Set(fd); });

  Progress progress;
  httplib::Request sent = Prepare(request, sink, progress);
  httplib::Response response;
  httplib::Error error = httplib::Error::Success;
  bool is_ok = false;
  {
    const std::stop_callback cut(stop, [&] { socket.Stop(); });
    is_ok = client->send(sent, response, error);
  }
  if (is_ok || progress.is_cut_error) return *std::move(progress.head);
  if (progress.had_enough) return HttpFailure{Kind::kSinkHadEnough, url.host + ": enough"};
  if (!untrusted.empty()) {
    return HttpFailure{Kind::kUntrusted, url.host + ": certificate: " + untrusted};
  }
  const std::string said = url.host + ": " + httplib::to_string(error);
  return HttpFailure{IsBeforeSending(error) ? Kind::kNotConnected : Kind::kBroken, said};
}

}  // namespace

std::variant<HttpHead, HttpFailure> SendGet(const HttpGet& request, const HttpSink& sink,
                                            const std::stop_token& stop) {
  using Kind = HttpFailure::Kind;
  const std::string& host = request.url.host;
  std::vector<std::string> addresses = LookUp(host, stop);
  if (addresses.size() > kMostAddresses) addresses.resize(kMostAddresses);
  std::variant<HttpHead, HttpFailure> out =
      HttpFailure{Kind::kUnknownHost, host + ": no such host"};
  for (const std::string& address : addresses) {
    out = SendTo(address, request, sink, stop);
    const auto* const failure = std::get_if<HttpFailure>(&out);
    if (stop.stop_requested() || failure == nullptr || failure->kind != Kind::kNotConnected) break;
  }
  if (stop.stop_requested()) return HttpFailure{Kind::kStopped, host + ": stopped"};
  return out;
}

}  // namespace janus::hub
