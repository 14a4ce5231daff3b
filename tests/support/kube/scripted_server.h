#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/fd.h"
#include "common/mutex.h"
#include "operator/kube/cluster_config.h"

namespace janus::control {

// A request as it was received.
struct SeenRequest {
  std::string method;
  std::string target;
  std::map<std::string, std::string> headers;  // names in small letters
  std::string body;
  int connection = 0;       // index of the accepted connection, from 0
  std::string client_name;  // common name of the client's certificate; empty: none
};

// The server's side of one connection: a script acts on it like servers and networks.
class Peer {
 public:
  virtual ~Peer() = default;

  // Sends the bytes unchanged, at any point.
  virtual void SendRaw(std::string_view bytes) = 0;
  // Sends nothing more: the client sees the end, and the connection is half closed until the client
  // ends it too.
  virtual void EndSending() = 0;
  // Ends the connection with a reset.
  virtual void Reset() = 0;
  // Sends nothing until the client has closed or reset the connection, or the server ends.
  virtual void HoldUntilClosed() = 0;

  void Reply(int status, std::string_view body, std::string_view headers = "",
             std::string_view content_type = "application/json");
  // Begins a chunked 200; SendChunk continues it, EndChunks ends it properly.
  void BeginChunks();
  void SendChunk(std::string_view bytes);
  void EndChunks();
};

// PEM texts of a CA, and of certificates that it has signed; made anew for each test program.
struct Certificate {
  std::string pem;
  std::string key;
};
class TestAuthority {
 public:
  TestAuthority();
  // An intermediate authority with a certificate that `root` has signed.
  explicit TestAuthority(const TestAuthority& root);
  ~TestAuthority();
  const std::string& pem() const { return pem_; }
  // `alternative_names`: in the format of the extension, "DNS:api.test,IP:127.0.0.1".
  Certificate Issue(const std::string& common_name, const std::string& alternative_names) const;

 private:
  struct Insides;
  void SignBy(const Insides& signer);

  std::unique_ptr<Insides> insides_;
  std::string pem_;
};

// An HTTP/1.1 server on a port of 127.0.0.1; a script gives every answer. It closes a connection if
// `answer` returns false. Thread-safe; `answer` is called on one thread per connection.
class ScriptedServer {
 public:
  using Answer = std::function<bool(const SeenRequest& request, Peer& peer)>;

  explicit ScriptedServer(Answer answer);
  // Over TLS; requests a client certificate of `clients`, and also accepts clients without one.
  ScriptedServer(Answer answer, const Certificate& certificate, const TestAuthority& clients);
  ~ScriptedServer();

  int port() const { return port_; }
  // The server's address, without credentials and trust.
  ClusterConfig config() const;
  std::vector<SeenRequest> requests() const;
  // Returns when this server has closed every connection so far.
  void WaitUntilClosed();
  // Sets the certificate of later connections.
  void Present(const Certificate& certificate);

 private:
  struct Tls;

  void Listen();
  void Accept();
  void Serve(Fd socket, int number);

  const Answer answer_;
  const TestAuthority* clients_ = nullptr;
  Fd listener_;
  int port_ = 0;

  mutable Mutex mu_;
  CondVar closed_;
  bool is_ending_ JANUS_GUARDED_BY(mu_) = false;
  std::vector<int> sockets_ JANUS_GUARDED_BY(mu_);  // open ones, closed at the end
  std::vector<SeenRequest> requests_ JANUS_GUARDED_BY(mu_);
  std::shared_ptr<Tls> tls_ JANUS_GUARDED_BY(mu_);

  std::vector<std::jthread> connections_;  // belongs to the accepting thread
  std::jthread accepting_;
};

}  // namespace janus::control
