#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/fd.h"
#include "dataplane/comm/handshake/exchange_refusal.h"
#include "dataplane/comm/handshake/hello_reader.h"
#include "dataplane/comm/handshake/listening_socket.h"

namespace janus::dataplane {

// A connection that has sent a whole HELLO, which nothing has checked yet.
struct ReceivedHello {
  Fd socket;
  Hello hello;
  // What came with the HELLO, unchecked too.
  std::string address;
  Fd segment;
  Fd device;
  bool is_local = false;  // it came over a Unix socket, so it could carry descriptors
};

// The connections of a listening socket that have not sent a whole HELLO yet. No call waits for one
// of them. A pass accepts a bounded number, and each has a deadline that its bytes do not extend.
// When there are too many, the oldest is closed. A member sends its HELLO as soon as it is
// connected, so any number of silent connections do not keep it out. Confined.
class PendingConnections {
 public:
  static constexpr size_t kMaxPending = 256;
  static constexpr int kMaxPerPass = 64;
  static constexpr std::chrono::seconds kHelloTimeout{5};
  // Between two tries to accept, when the system had no descriptor or memory for a connection.
  static constexpr std::chrono::milliseconds kAcceptRetryDelay{100};

  // `counts` counts the connections that are closed before their HELLO is whole; it may be null.
  // Internal, ResourceExhausted: the system cannot make an epoll instance.
  static Result<std::unique_ptr<PendingConnections>> Create(
      std::unique_ptr<ListeningSocket> listener, ExchangeRefusalCounts* counts);
  PendingConnections(const PendingConnections&) = delete;
  PendingConnections& operator=(const PendingConnections&) = delete;

  const ListeningSocket& listener() const { return *listener_; }
  // For poll: readable when a pass has something to do before next().
  int fd() const { return epoll_.get(); }
  // When a pass has something to do at the latest; absent: only when fd() is readable.
  std::optional<MonotonicTime> next() const;

  // Accepts and reads without waiting, and closes the connections that are past their deadline.
  // Returns the connections that have sent a whole HELLO.
  std::vector<ReceivedHello> Pass(MonotonicTime now);

  // Connections that have no whole HELLO yet.
  size_t half_open() const { return half_open_.size(); }

 private:
  struct HalfOpen {
    Fd socket;
    MonotonicTime deadline;
    HelloReader reader;
  };
  using Place = std::map<uint64_t, HalfOpen>::iterator;

  PendingConnections(std::unique_ptr<ListeningSocket> listener, Fd epoll,
                     ExchangeRefusalCounts* counts)
      : listener_(std::move(listener)), epoll_(std::move(epoll)), counts_(counts) {}
  void Accept(MonotonicTime now, std::vector<ReceivedHello>& whole);
  void Add(Fd socket, MonotonicTime now, std::vector<ReceivedHello>& whole);
  void Read(Place at, std::vector<ReceivedHello>& whole);
  void Reject(Place at, ExchangeRefusal why);
  bool WatchListener(uint32_t events, int operation);
  void Count(ExchangeRefusal why) {
    if (counts_ != nullptr) counts_->Count(why);
  }

  const std::unique_ptr<ListeningSocket> listener_;
  const Fd epoll_;
  ExchangeRefusalCounts* const counts_;
  std::map<uint64_t, HalfOpen> half_open_;  // in the order of accept and of deadlines
  uint64_t accepted_ = 0;
  std::optional<MonotonicTime> accept_after_;  // no accept before
};

}  // namespace janus::dataplane
