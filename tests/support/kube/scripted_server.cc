#include "tests/support/kube/scripted_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <csignal>
#include <optional>

#include "common/check.h"

namespace janus::control {
namespace {

std::string PemOf(const std::function<int(BIO*)>& write) {
  BIO* const bio = BIO_new(BIO_s_mem());
  JANUS_CHECK(write(bio) == 1, "PEM");
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);  // NOLINT: OpenSSL's type
  std::string out(bytes, static_cast<size_t>(size));
  BIO_free(bio);
  return out;
}

std::string PemOf(X509* certificate) {
  return PemOf([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

void AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  JANUS_CHECK(extension != nullptr, value);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* NewCertificate(const std::string& common_name, EVP_PKEY* key) {
  static std::atomic<int> serial = 1;
  X509* const out = X509_new();
  X509_set_version(out, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(out), serial++);
  X509_gmtime_adj(X509_getm_notBefore(out), -3600);
  X509_gmtime_adj(X509_getm_notAfter(out), 86400);
  X509_set_pubkey(out, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(out), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1,
                             0);
  return out;
}

}  // namespace

struct TestAuthority::Insides {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate;
  explicit Insides(const std::string& name) : certificate(NewCertificate(name, key)) {}
  ~Insides() {
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
};

TestAuthority::TestAuthority() : insides_(std::make_unique<Insides>("test CA")) {
  SignBy(*insides_);
}

TestAuthority::TestAuthority(const TestAuthority& root)
    : insides_(std::make_unique<Insides>("test intermediate CA")) {
  SignBy(*root.insides_);
}

void TestAuthority::SignBy(const Insides& signer) {
  X509* const own = insides_->certificate;
  X509_set_issuer_name(own, X509_get_subject_name(signer.certificate));
  AddExtension(own, own, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(own, own, NID_subject_key_identifier, "hash");
  X509_sign(own, signer.key, EVP_sha256());
  pem_ = PemOf(own);
}

TestAuthority::~TestAuthority() = default;

Certificate TestAuthority::Issue(const std::string& common_name,
                                 const std::string& alternative_names) const {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = NewCertificate(common_name, key);
  X509_set_issuer_name(certificate, X509_get_subject_name(insides_->certificate));
  // Like clusters' CAs: the old and the new one have the same name and different keys.
  AddExtension(certificate, insides_->certificate, NID_authority_key_identifier, "keyid:always");
  if (!alternative_names.empty()) {
    AddExtension(certificate, insides_->certificate, NID_subject_alt_name, alternative_names);
  }
  X509_sign(certificate, insides_->key, EVP_sha256());
  Certificate out{PemOf(certificate), PemOf([&](BIO* bio) {
                    return PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr,
                                                         nullptr);
                  })};
  X509_free(certificate);
  EVP_PKEY_free(key);
  return out;
}

struct ScriptedServer::Tls {
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());

  Tls(const Certificate& own, const TestAuthority& clients) {
    const auto read = [](const std::string& pem) {
      return BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
    };
    BIO* bio = read(own.pem);
    X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
    bio = read(own.key);
    EVP_PKEY* const key = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
    JANUS_CHECK(SSL_CTX_use_certificate(context, certificate) == 1 &&
                    SSL_CTX_use_PrivateKey(context, key) == 1,
                "certificate");
    X509_free(certificate);
    EVP_PKEY_free(key);
    bio = read(clients.pem());
    X509* const root = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), root);
    X509_free(root);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);  // requested, not required
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  }
  ~Tls() { SSL_CTX_free(context); }
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;
};

void Peer::Reply(int status, std::string_view body, std::string_view headers,
                 std::string_view content_type) {
  SendRaw("HTTP/1.1 " + std::to_string(status) +
          " X\r\nContent-Type: " + std::string(content_type) + "\r\n" + std::string(headers) +
          "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body));
}

void Peer::BeginChunks() {
  SendRaw(
      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n");
}

void Peer::SendChunk(std::string_view bytes) {
  char size[20];
  const auto end = std::to_chars(size, size + sizeof size, bytes.size(), 16).ptr;
  SendRaw(std::string(size, end) + "\r\n" + std::string(bytes) + "\r\n");
}

void Peer::EndChunks() {
  SendRaw("0\r\n\r\n");
}

namespace {

// A socket, with or without TLS over it.
class SocketPeer final : public Peer {
 public:
  SocketPeer(int socket, SSL_CTX* context) : socket_(socket) {
    if (context == nullptr) return;
    ssl_ = SSL_new(context);
    SSL_set_fd(ssl_, socket);
    is_open_ = SSL_accept(ssl_) == 1;
  }
  ~SocketPeer() override { SSL_free(ssl_); }

  bool is_open() const { return is_open_; }
  std::string ClientName() const {
    X509* const certificate = ssl_ == nullptr ? nullptr : SSL_get1_peer_certificate(ssl_);
    if (certificate == nullptr) return "";
    char name[64] = "";
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name,
                              sizeof name);
    X509_free(certificate);
    return name;
  }
  // Empty: the end of the connection.
  std::string Receive() {
    char bytes[4096];
    const auto got = ssl_ == nullptr ? recv(socket_, bytes, sizeof bytes, 0)
                                     : SSL_read(ssl_, bytes, sizeof bytes);
    return got > 0 ? std::string(bytes, static_cast<size_t>(got)) : "";
  }
  void SendRaw(std::string_view bytes) override {
    while (!bytes.empty()) {
      const auto sent = ssl_ == nullptr
                            ? send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL)
                            : SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()));
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void EndSending() override {
    if (ssl_ != nullptr) SSL_shutdown(ssl_);
    shutdown(socket_, SHUT_WR);
  }
  void Reset() override {
    const linger at_once = {1, 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    is_open_ = false;
  }
  void HoldUntilClosed() override {
    while (!Receive().empty()) {
    }
    is_open_ = false;
  }
  // Closes orderly, as servers do.
  void Close() {
    if (ssl_ != nullptr && is_open_) SSL_shutdown(ssl_);
  }

 private:
  const int socket_;
  SSL* ssl_ = nullptr;
  bool is_open_ = true;
};

std::string Small(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Takes one request from `buffer`, and reads more as needed; nothing: the connection ended.
std::optional<SeenRequest> ReadRequest(SocketPeer& peer, std::string& buffer) {
  const auto read_more = [&] {
    const std::string more = peer.Receive();
    buffer += more;
    return !more.empty();
  };
  size_t end = 0;
  while ((end = buffer.find("\r\n\r\n")) == buffer.npos) {
    if (!read_more()) return std::nullopt;
  }
  SeenRequest out;
  const std::string head = buffer.substr(0, end + 2);
  buffer.erase(0, end + 4);
  const size_t first = head.find(' ');
  const size_t second = head.find(' ', first + 1);
  out.method = head.substr(0, first);
  out.target = head.substr(first + 1, second - first - 1);
  for (size_t at = head.find("\r\n") + 2; at < head.size();) {
    const size_t line_end = head.find("\r\n", at);
    const size_t colon = head.find(": ", at);
    out.headers[Small(head.substr(at, colon - at))] = head.substr(colon + 2, line_end - colon - 2);
    at = line_end + 2;
  }
  size_t size = 0;
  if (const auto found = out.headers.find("content-length"); found != out.headers.end()) {
    size = std::stoul(found->second);
  }
  while (buffer.size() < size) {
    if (!read_more()) return std::nullopt;
  }
  out.body = buffer.substr(0, size);
  buffer.erase(0, size);
  return out;
}

}  // namespace

ScriptedServer::ScriptedServer(Answer answer) : answer_(std::move(answer)) {
  Listen();
}

ScriptedServer::ScriptedServer(Answer answer, const Certificate& certificate,
                               const TestAuthority& clients)
    : answer_(std::move(answer)), clients_(&clients) {
  Present(certificate);
  Listen();
}

void ScriptedServer::Listen() {
  listener_ = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  JANUS_CHECK(bind(listener_.get(), any, size) == 0 && listen(listener_.get(), 64) == 0 &&
                  getsockname(listener_.get(), any, &size) == 0,
              "listen");
  port_ = ntohs(address.sin_port);
  accepting_ = std::jthread([this] { Accept(); });
}

ScriptedServer::~ScriptedServer() {
  {
    const MutexLock lock(mu_);
    is_ending_ = true;
    for (const int socket : sockets_) shutdown(socket, SHUT_RDWR);
  }
  shutdown(listener_.get(), SHUT_RDWR);
  accepting_.join();
  connections_.clear();
}

void ScriptedServer::Accept() {
  for (int number = 0;; ++number) {
    Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) return;
    const MutexLock lock(mu_);
    if (is_ending_) return;
    sockets_.push_back(socket.get());
    connections_.emplace_back([this, number](Fd own) { Serve(std::move(own), number); },
                              std::move(socket));
  }
}

void ScriptedServer::Serve(Fd socket, int number) {
  sigset_t broken_pipe;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);  // TLS's writes would raise it
  std::shared_ptr<Tls> tls;
  {
    const MutexLock lock(mu_);
    tls = tls_;
  }
  {
    SocketPeer peer(socket.get(), tls == nullptr ? nullptr : tls->context);
    std::string buffer;
    bool goes_on = peer.is_open();
    while (goes_on) {
      std::optional<SeenRequest> request = ReadRequest(peer, buffer);
      if (!request) break;
      request->connection = number;
      request->client_name = peer.ClientName();
      {
        const MutexLock lock(mu_);
        requests_.push_back(*request);
      }
      goes_on = answer_(*request, peer) && peer.is_open();
    }
    peer.Close();
  }
  const MutexLock lock(mu_);
  std::erase(sockets_, socket.get());
  socket.Reset();
  closed_.NotifyAll();
}

void ScriptedServer::WaitUntilClosed() {
  const MutexLock lock(mu_);
  while (!sockets_.empty()) closed_.Wait(mu_);
}

ClusterConfig ScriptedServer::config() const {
  ClusterConfig out;
  out.origin = "test";
  out.host = "127.0.0.1";
  out.port = port_;
  out.use_tls = clients_ != nullptr;
  return out;
}

std::vector<SeenRequest> ScriptedServer::requests() const {
  const MutexLock lock(mu_);
  return requests_;
}

void ScriptedServer::Present(const Certificate& certificate) {
  auto tls = std::make_shared<Tls>(certificate, *clients_);
  const MutexLock lock(mu_);
  tls_ = std::move(tls);
}

}  // namespace janus::control
