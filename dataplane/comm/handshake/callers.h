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
#include "dataplane/comm/handshake/exchange_listener.h"
#include "dataplane/comm/handshake/exchange_refusal.h"
#include "dataplane/comm/handshake/hello_reader.h"

namespace janus::dataplane {

// Somebody who has said a whole HELLO, which is unjudged.
struct Caller {
  Fd socket;
  Hello hello;
  std::string address;  // what came with it
  Fd segment;           // likewise
  Fd device;            // likewise
};

// Who knocks at a listener, until HELLO is whole. Nobody is waited for, whatever they send: a pass
// takes in a bounded number of them, and each is held until a time that its bytes do not put off.
// When there are too many, who has been there longest has to go: a member says its HELLO at once,
// so it comes through however many stay silent behind it and before it. Confined.
class Callers {
 public:
  static constexpr size_t kMost = 256;
  static constexpr int kMostPerPass = 64;
  static constexpr std::chrono::seconds kPatience{5};
  // Between two tries to take somebody in, when the system had no descriptor or memory for it.
  static constexpr std::chrono::milliseconds kRest{100};

  // Those who are not heard out are counted by `counts`, if it is not null. Internal,
  // ResourceExhausted: the system has no room to watch them.
  static Result<std::unique_ptr<Callers>> Create(std::unique_ptr<ExchangeListener> listener,
                                                 ExchangeRefusalCounts* counts);
  Callers(const Callers&) = delete;
  Callers& operator=(const Callers&) = delete;

  const ExchangeListener& listener() const { return *listener_; }
  // For poll: readable when a pass has something to do before next().
  int fd() const { return epoll_.get(); }
  // When a pass has something to do at the latest; absent: whenever fd() says so.
  std::optional<MonotonicTime> next() const;

  // Takes in and hears who is there, without waiting; sends those away whose time is over. Returns
  // who is done.
  std::vector<Caller> Pass(MonotonicTime now);

  // How many have begun and are not done.
  size_t half_open() const { return half_open_.size(); }

 private:
  struct HalfOpen {
    Fd socket;
    MonotonicTime deadline;
    HelloReader reader;
  };
  using Place = std::map<uint64_t, HalfOpen>::iterator;

  Callers(std::unique_ptr<ExchangeListener> listener, Fd epoll, ExchangeRefusalCounts* counts)
      : listener_(std::move(listener)), epoll_(std::move(epoll)), counts_(counts) {}
  void Accept(MonotonicTime now, std::vector<Caller>& whole);
  void Enter(Fd socket, MonotonicTime now, std::vector<Caller>& whole);
  void Hear(Place who, std::vector<Caller>& whole);
  void SendAway(Place who, ExchangeRefusal why);
  bool WatchListener(uint32_t events, int operation);
  void Count(ExchangeRefusal why) {
    if (counts_ != nullptr) counts_->Count(why);
  }

  const std::unique_ptr<ExchangeListener> listener_;
  const Fd epoll_;
  ExchangeRefusalCounts* const counts_;
  std::map<uint64_t, HalfOpen> half_open_;  // in the order of their coming, thus of their deadlines
  uint64_t came_ = 0;
  std::optional<MonotonicTime> rest_until_;  // nobody is taken in before
};

}  // namespace janus::dataplane
