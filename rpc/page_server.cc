// Only this file and dataplane/gateway/http_server.cc include Boost, because Beast takes seconds to
// compile.
#include "rpc/page_server.h"

#include <unistd.h>

#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <cstring>
#include <list>
#include <optional>
#include <thread>
#include <utility>

namespace janus {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
// TCP or a socket file.
using Protocol = asio::generic::stream_protocol;
using Stream = beast::basic_stream<Protocol, asio::io_context::executor_type>;
using TlsContext = asio::ssl::context;

constexpr std::uint32_t kMostHeaderBytes = 16 << 10;
constexpr std::string_view kUnix = "unix:";
// Until descriptors may be free again.
constexpr std::chrono::milliseconds kAcceptPause{100};

struct HostAndPort {
  std::string host;
  uint16_t port = 0;
};

Result<HostAndPort> ParseAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  HostAndPort out;
  if (colon != std::string::npos && colon > 0) {
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, out.port);
    if (error == std::errc() && rest == end) {
      out.host = text.substr(0, colon);
      if (out.host.starts_with('[') && out.host.ends_with(']')) {
        out.host = out.host.substr(1, out.host.size() - 2);
      }
      return out;
    }
  }
  return InvalidArgument("'" + text +
                         "' is not an address; want HOST:PORT, for example 0.0.0.0:8080, or "
                         "unix:/PATH");
}

}  // namespace

class PageServer::Server {
 public:
  Server(Pages pages, OtherPages others, PageAccess access)
      : pages_(std::move(pages)), others_(std::move(others)), access_(std::move(access)) {}
  ~Server() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
    if (!socket_path_.empty()) unlink(socket_path_.c_str());
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  Status Listen(const std::string& address) {
    address_ = address;
    if (address.starts_with(kUnix)) {
      const std::string path = address.substr(kUnix.size());
      const asio::local::stream_protocol::endpoint at(path);
      JANUS_RETURN_IF_ERROR(Bind(at, asio::local::stream_protocol()));
      socket_path_ = path;
      return OkStatus();
    }
    JANUS_ASSIGN_OR_RETURN(const HostAndPort at, ParseAddress(address));
    error_code error;
    asio::ip::tcp::resolver resolver(io_);
    const auto found =
        resolver.resolve(at.host, std::to_string(at.port), asio::ip::tcp::resolver::passive, error);
    if (error || found.empty()) return CannotListen();
    const asio::ip::tcp::endpoint endpoint = found.begin()->endpoint();
    JANUS_RETURN_IF_ERROR(Bind(endpoint, endpoint.protocol()));
    asio::ip::tcp::endpoint bound;
    const Protocol::endpoint local = acceptor_.local_endpoint(error);
    if (error || local.size() > bound.capacity()) return CannotListen();
    std::memcpy(bound.data(), local.data(), local.size());
    address_ = address.substr(0, address.rfind(':') + 1) + std::to_string(bound.port());
    return OkStatus();
  }
  void Start() {
    Accept();
    thread_ = std::thread([this] { io_.run(); });
  }
  const std::string& address() const { return address_; }

 private:
  struct Connection {
    explicit Connection(Stream::socket_type socket) : stream(std::move(socket)) {
      parser.header_limit(kMostHeaderBytes);
      parser.body_limit(0);
    }
    Stream stream;
    std::shared_ptr<TlsContext> context;  // outlives `tls`
    std::optional<asio::ssl::stream<Stream&>> tls;
    beast::flat_buffer buffer{kMostHeaderBytes};
    http::request_parser<http::empty_body> parser;
    http::response<http::string_body> reply;
  };
  // Oldest first. A connection is in the list until its last handler has run.
  using Place = std::list<std::shared_ptr<Connection>>::iterator;

  Status CannotListen() const {
    return Unavailable("cannot listen at '" + address_ +
                       "'; check that it is free and that its host or folder exists");
  }

  template <class Endpoint, class Kind>
  Status Bind(const Endpoint& endpoint, const Kind& kind) {
    error_code error;
    acceptor_.open(Protocol(kind), error);
    // Without SO_REUSEPORT, with which two processes could share the port and each get some calls.
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(Protocol::endpoint(endpoint), error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    return error ? CannotListen() : OkStatus();
  }

  void Accept() {
    acceptor_.async_accept(io_, [this](error_code error, Stream::socket_type socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {
        pause_.expires_after(kAcceptPause);
        pause_.async_wait([this](error_code stopped) {
          if (!stopped) Accept();
        });
        return;
      }
      if (connections_.size() >= kMostConnections) connections_.front()->stream.close();
      Begin(std::make_shared<Connection>(std::move(socket)));
      Accept();
    });
  }

  void Begin(const std::shared_ptr<Connection>& connection) {
    Connection& one = *connection;
    const Place place = connections_.insert(connections_.end(), connection);
    one.stream.expires_after(kSilence);
    if (!access_.certificate) return Read(connection, place);
    one.context = Context();
    if (one.context == nullptr) {
      connections_.erase(place);
      return;
    }
    one.tls.emplace(one.stream, *one.context);
    one.tls->async_handshake(asio::ssl::stream_base::server,
                             [this, connection, place](error_code error) {
                               if (error) {
                                 connections_.erase(place);
                               } else {
                                 Read(connection, place);
                               }
                             });
  }

  // Of the present certificate; null: it cannot be used.
  std::shared_ptr<TlsContext> Context() {
    const std::shared_ptr<const PageCertificate> now = access_.certificate();
    if (now == certificate_) return context_;
    certificate_ = now;
    context_ = nullptr;
    if (now == nullptr) return nullptr;
    auto context = std::make_shared<TlsContext>(TlsContext::tls_server);
    error_code error;
    context->set_options(TlsContext::no_tlsv1 | TlsContext::no_tlsv1_1, error);
    if (!error) context->use_certificate_chain(asio::buffer(now->chain), error);
    if (!error) context->use_private_key(asio::buffer(now->key), TlsContext::pem, error);
    if (!error) context_ = std::move(context);
    return context_;
  }

  void Read(const std::shared_ptr<Connection>& connection, Place place) {
    Connection& one = *connection;
    const auto done = [this, connection, place](error_code error, size_t) {
      if (error) {
        connections_.erase(place);
      } else {
        Answer(connection, place);
      }
    };
    if (one.tls) {
      http::async_read(*one.tls, one.buffer, one.parser, done);
    } else {
      http::async_read(one.stream, one.buffer, one.parser, done);
    }
  }

  void Answer(const std::shared_ptr<Connection>& connection, Place place) {
    Connection& one = *connection;
    const auto& request = one.parser.get();
    const bool is_head = request.method() == http::verb::head;
    Page page = request.method() == http::verb::get || is_head
                    ? PageFor(request)
                    : Page{405, "only GET and HEAD are served here\n"};
    one.reply.result(static_cast<unsigned>(page.status));
    one.reply.version(request.version());
    one.reply.keep_alive(false);
    one.reply.set(http::field::content_type, page.content_type);
    one.reply.content_length(page.text.size());
    if (!is_head) one.reply.body() = std::move(page.text);
    if (page.status == 401) one.reply.set(http::field::www_authenticate, "Bearer");
    one.stream.expires_after(kReading);
    const auto done = [this, connection, place](error_code, size_t) {
      error_code ignored;
      connection->stream.socket().shutdown(asio::socket_base::shutdown_send, ignored);
      connections_.erase(place);
    };
    if (one.tls) {
      http::async_write(*one.tls, one.reply, done);
    } else {
      http::async_write(one.stream, one.reply, done);
    }
  }

  Page PageFor(const http::request<http::empty_body>& request) const {
    const std::string_view target = request.target();
    const std::string path(target.substr(0, target.find('?')));
    if (access_.refuse) {
      const std::string authorization(request[http::field::authorization]);
      if (std::optional<Page> refused = access_.refuse(authorization, path)) return *refused;
    }
    const auto found = pages_.find(path);
    if (found != pages_.end()) return found->second();
    if (others_) return others_(path, std::string(request[http::field::host]));
    return {404, "there is no such page\n"};
  }

  const Pages pages_;
  const OtherPages others_;
  const PageAccess access_;
  std::shared_ptr<const PageCertificate> certificate_;  // of context_
  std::shared_ptr<TlsContext> context_;
  std::string address_;
  std::string socket_path_;  // of the socket file that we made
  asio::io_context io_{1};
  asio::basic_socket_acceptor<Protocol, asio::io_context::executor_type> acceptor_{io_};
  asio::steady_timer pause_{io_};
  std::list<std::shared_ptr<Connection>> connections_;
  std::thread thread_;
};

PageServer::PageServer(std::unique_ptr<Server> server) : server_(std::move(server)) {}
PageServer::~PageServer() = default;

const std::string& PageServer::address() const {
  return server_->address();
}

Result<std::unique_ptr<PageServer>> PageServer::Create(const std::string& address,
                                                       const Pages& pages, const OtherPages& others,
                                                       PageAccess access) {
  auto server = std::make_unique<Server>(pages, others, std::move(access));
  JANUS_RETURN_IF_ERROR(server->Listen(address));
  server->Start();
  return std::unique_ptr<PageServer>(new PageServer(std::move(server)));
}

}  // namespace janus
