#pragma once

#include <memory>
#include <string>

#include "common/fd.h"
#include "common/status.h"

namespace janus::dataplane {

// The non-blocking socket at which an instance's peers connect and send their HELLO. A Unix
// socket's folder must be closed to other users; its file is removed with the listener.
// Thread-compatible.
class ListeningSocket {
 public:
  // "unix:/path", or "tcp:1.2.3.4:port" and "tcp:[::1]:port" (port 0: the kernel chooses).
  // InvalidArgument: no such address. Unavailable: it cannot be bound.
  static Result<std::unique_ptr<ListeningSocket>> Create(const std::string& address);
  ~ListeningSocket();
  ListeningSocket(const ListeningSocket&) = delete;
  ListeningSocket& operator=(const ListeningSocket&) = delete;

  int fd() const { return fd_.get(); }
  bool is_unix() const;
  // Where to dial, with the port that was chosen.
  const std::string& address() const { return address_; }

 private:
  ListeningSocket(Fd fd, std::string address) : fd_(std::move(fd)), address_(std::move(address)) {}
  const Fd fd_;
  const std::string address_;
};

}  // namespace janus::dataplane
