#include "dataplane/comm/handshake/callers.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "dataplane/comm/handshake/exchange_address.h"

namespace janus::dataplane {
namespace {

constexpr uint64_t kListener = 0;  // among what is watched; callers are numbered from 1

// The other end of a Unix socket belongs to our user.
bool IsOurUser(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

}  // namespace

Result<std::unique_ptr<Callers>> Callers::Create(std::unique_ptr<ExchangeListener> listener,
                                                 ExchangeRefusalCounts* counts) {
  Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) {
    return ResourceExhausted("exchange: epoll: " + std::string(std::strerror(errno)));
  }
  std::unique_ptr<Callers> callers(new Callers(std::move(listener), std::move(epoll), counts));
  if (!callers->WatchListener(EPOLLIN, EPOLL_CTL_ADD)) {
    return Internal("exchange: epoll: " + std::string(std::strerror(errno)));
  }
  return callers;
}

std::optional<MonotonicTime> Callers::next() const {
  if (half_open_.empty()) return rest_until_;
  const MonotonicTime deadline = half_open_.begin()->second.deadline;
  return rest_until_ ? std::min(*rest_until_, deadline) : deadline;
}

std::vector<Caller> Callers::Pass(MonotonicTime now) {
  std::vector<Caller> whole;
  if (rest_until_ && now >= *rest_until_) {
    rest_until_.reset();
    WatchListener(EPOLLIN, EPOLL_CTL_MOD);
  }
  std::array<epoll_event, kMost + 1> ready;
  const int count = epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  bool knocks = false;
  for (int i = 0; i < count; ++i) {
    const uint64_t number = ready[static_cast<size_t>(i)].data.u64;
    if (number == kListener) {
      knocks = true;
    } else if (const Place who = half_open_.find(number); who != half_open_.end()) {
      Hear(who, whole);
    }
  }
  // After those were heard who are here: what they have said counts, even if nobody had time to
  // hear it before their time was over.
  while (!half_open_.empty() && half_open_.begin()->second.deadline <= now) {
    SendAway(half_open_.begin(), ExchangeRefusal::kTimeout);
  }
  if (knocks) Accept(now, whole);
  return whole;
}

void Callers::Accept(MonotonicTime now, std::vector<Caller>& whole) {
  for (int i = 0; i < kMostPerPass; ++i) {
    Fd socket(accept4(listener_->fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno == ECONNABORTED || errno == EINTR) continue;
      if (errno == EAGAIN) return;
      // Whoever could not be taken in still makes the listener readable.
      rest_until_ = now + kRest;
      WatchListener(0, EPOLL_CTL_MOD);
      return;
    }
    Enter(std::move(socket), now, whole);
  }
}

void Callers::Enter(Fd socket, MonotonicTime now, std::vector<Caller>& whole) {
  if (!listener_->is_unix()) {
    TuneTcp(socket.get());
  } else if (!IsOurUser(socket.get())) {
    return Count(ExchangeRefusal::kMember);
  }
  if (half_open_.size() >= kMost) SendAway(half_open_.begin(), ExchangeRefusal::kOverflow);
  const uint64_t number = ++came_;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = number;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) {
    return Count(ExchangeRefusal::kOverflow);
  }
  const Place who = half_open_.try_emplace(number).first;
  who->second.socket = std::move(socket);
  who->second.deadline = now + kPatience;
  // A member's HELLO is there already as a rule.
  Hear(who, whole);
}

void Callers::Hear(Place who, std::vector<Caller>& whole) {
  HalfOpen& caller = who->second;
  switch (caller.reader.Read(caller.socket.get())) {
    case HelloReader::State::kMore:
      return;
    case HelloReader::State::kBroken:
      return SendAway(who, ExchangeRefusal::kMalformed);
    case HelloReader::State::kWhole:
      break;
  }
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, caller.socket.get(), nullptr);
  whole.push_back({std::move(caller.socket), caller.reader.hello, std::move(caller.reader.address),
                   std::move(caller.reader.segment), std::move(caller.reader.device)});
  half_open_.erase(who);
}

void Callers::SendAway(Place who, ExchangeRefusal why) {
  half_open_.erase(who);  // which closes the connection, and so it is watched no longer
  Count(why);
}

bool Callers::WatchListener(uint32_t events, int operation) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = kListener;
  return epoll_ctl(epoll_.get(), operation, listener_->fd(), &event) == 0;
}

}  // namespace janus::dataplane
