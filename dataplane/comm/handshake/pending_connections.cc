#include "dataplane/comm/handshake/pending_connections.h"

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

constexpr uint64_t kListener =
    0;  // key of the listening socket in epoll; connections are numbered from 1

// Whether the other end of a Unix socket belongs to our user.
bool IsOurUser(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

}  // namespace

Result<std::unique_ptr<PendingConnections>> PendingConnections::Create(
    std::unique_ptr<ListeningSocket> listener, ExchangeRefusalCounts* counts) {
  Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) {
    return ResourceExhausted("exchange: epoll: " + std::string(std::strerror(errno)));
  }
  std::unique_ptr<PendingConnections> pending(
      new PendingConnections(std::move(listener), std::move(epoll), counts));
  if (!pending->WatchListener(EPOLLIN, EPOLL_CTL_ADD)) {
    return Internal("exchange: epoll: " + std::string(std::strerror(errno)));
  }
  return pending;
}

std::optional<MonotonicTime> PendingConnections::next() const {
  if (half_open_.empty()) return accept_after_;
  const MonotonicTime deadline = half_open_.begin()->second.deadline;
  return accept_after_ ? std::min(*accept_after_, deadline) : deadline;
}

std::vector<ReceivedHello> PendingConnections::Pass(MonotonicTime now) {
  std::vector<ReceivedHello> whole;
  if (accept_after_ && now >= *accept_after_) {
    accept_after_.reset();
    WatchListener(EPOLLIN, EPOLL_CTL_MOD);
  }
  std::array<epoll_event, kMaxPending + 1> ready;
  const int count = epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  bool has_new = false;
  for (int i = 0; i < count; ++i) {
    const uint64_t number = ready[static_cast<size_t>(i)].data.u64;
    if (number == kListener) {
      has_new = true;
    } else if (const Place at = half_open_.find(number); at != half_open_.end()) {
      Read(at, whole);
    }
  }
  // Only after the reads: a HELLO that has arrived counts, even if this pass comes after the
  // deadline.
  while (!half_open_.empty() && half_open_.begin()->second.deadline <= now) {
    Reject(half_open_.begin(), ExchangeRefusal::kTimeout);
  }
  if (has_new) Accept(now, whole);
  return whole;
}

void PendingConnections::Accept(MonotonicTime now, std::vector<ReceivedHello>& whole) {
  for (int i = 0; i < kMaxPerPass; ++i) {
    Fd socket(accept4(listener_->fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno == ECONNABORTED || errno == EINTR) continue;
      if (errno == EAGAIN) return;
      // A connection that could not be accepted keeps the socket readable, so pause the watch.
      accept_after_ = now + kAcceptRetryDelay;
      WatchListener(0, EPOLL_CTL_MOD);
      return;
    }
    Add(std::move(socket), now, whole);
  }
}

void PendingConnections::Add(Fd socket, MonotonicTime now, std::vector<ReceivedHello>& whole) {
  if (!listener_->is_unix()) {
    TuneTcp(socket.get());
  } else if (!IsOurUser(socket.get())) {
    return Count(ExchangeRefusal::kMember);
  }
  if (half_open_.size() >= kMaxPending) Reject(half_open_.begin(), ExchangeRefusal::kOverflow);
  const uint64_t number = ++accepted_;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = number;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) {
    return Count(ExchangeRefusal::kOverflow);
  }
  const Place at = half_open_.try_emplace(number).first;
  at->second.socket = std::move(socket);
  at->second.deadline = now + kHelloTimeout;
  // The HELLO of a member has usually arrived by now.
  Read(at, whole);
}

void PendingConnections::Read(Place at, std::vector<ReceivedHello>& whole) {
  HalfOpen& connection = at->second;
  switch (connection.reader.Read(connection.socket.get())) {
    case HelloReader::State::kMore:
      return;
    case HelloReader::State::kBroken:
      return Reject(at, ExchangeRefusal::kMalformed);
    case HelloReader::State::kWhole:
      break;
  }
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.socket.get(), nullptr);
  whole.push_back({std::move(connection.socket), connection.reader.hello,
                   std::move(connection.reader.address), std::move(connection.reader.segment),
                   std::move(connection.reader.device), listener_->is_unix()});
  half_open_.erase(at);
}

void PendingConnections::Reject(Place at, ExchangeRefusal why) {
  half_open_.erase(at);  // closes the connection, which removes it from epoll
  Count(why);
}

bool PendingConnections::WatchListener(uint32_t events, int operation) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = kListener;
  return epoll_ctl(epoll_.get(), operation, listener_->fd(), &event) == 0;
}

}  // namespace janus::dataplane
