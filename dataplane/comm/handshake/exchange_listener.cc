#include "dataplane/comm/handshake/exchange_listener.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "dataplane/comm/handshake/exchange_address.h"
#include "dataplane/comm/handshake/send_hello.h"

namespace janus::dataplane {
namespace {

Result<Fd> MakeEvent() {
  Fd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return ResourceExhausted("exchange: eventfd: " + std::string(std::strerror(errno)));
  return fd;
}

void Signal(const Fd& event) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event.get(), &one, sizeof one);
}

void Clear(const Fd& event) {
  uint64_t count;
  [[maybe_unused]] const ssize_t got = read(event.get(), &count, sizeof count);
}

// Timeout for poll. Rounded up, because a pass before `until` would find nothing to do.
int Milliseconds(std::optional<MonotonicTime> until, MonotonicTime now) {
  if (!until) return -1;
  if (*until <= now) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - now).count();
  return static_cast<int>(std::min<int64_t>(left, std::numeric_limits<int>::max()));
}

}  // namespace

ExpectedEpoch::ExpectedEpoch(const ExchangeIdentity& identity, const TransportLayout& layout,
                             Fd waiting, ExchangeRefusalCounts* counts)
    : ours_(MakeHello(identity, layout, PairTransport::kSharedMemory, 0)),
      layout_(layout),
      counts_(counts),
      waiting_fd_(std::move(waiting)) {}

std::vector<ReceivedHello> ExpectedEpoch::Take() {
  const MutexLock lock(mu_);
  Clear(waiting_fd_);
  std::vector<ReceivedHello> hellos;
  for (auto& [member, received] : waiting_) hellos.push_back(std::move(received));
  waiting_.clear();
  return hellos;
}

void ExpectedEpoch::Refuse(const ReceivedHello& received, const Status* why) const {
  if (counts_ != nullptr) counts_->Count(ExchangeRefusal::kMember);
  if (why != nullptr) SendHello(received.socket.get(), MakeRefusal(ours_, *why), "", {});
}

std::string ExpectedEpoch::last_refusal() const {
  const MutexLock lock(mu_);
  return last_refusal_;
}

void ExpectedEpoch::Close() {
  const MutexLock lock(mu_);
  is_open_ = false;
  for (const auto& [member, received] : waiting_) Refuse(received, nullptr);
  waiting_.clear();
}

bool ExpectedEpoch::is_open() const {
  const MutexLock lock(mu_);
  return is_open_;
}

bool ExpectedEpoch::Admit(ReceivedHello& received) {
  const PeerId peer = SenderOf(received.hello);
  const int member = MemberIndex(layout_, peer);
  const std::vector<PeerId> peers = PeersOf(layout_);
  if (member < MemberIndex(layout_, layout_.self) ||
      std::find(peers.begin(), peers.end(), peer) == peers.end()) {
    return false;
  }
  const MutexLock lock(mu_);
  if (!is_open_) return false;
  waiting_.insert_or_assign(member, std::move(received));
  Signal(waiting_fd_);
  return true;
}

void ExpectedEpoch::NoteRefusal(const Status& why) {
  const MutexLock lock(mu_);
  if (is_open_) last_refusal_ = why.message();
}

Result<std::unique_ptr<ExchangeListener>> ExchangeListener::Create(const std::string& address,
                                                                   ExchangeRefusalCounts* counts) {
  auto listener = std::make_unique<ExchangeListener>(counts);
  JANUS_RETURN_IF_ERROR(listener->Listen(address));
  return listener;
}

Status ExchangeListener::Listen(const std::string& address) {
  if (thread_.joinable() && address_ == address) return OkStatus();
  thread_ = std::jthread();
  JANUS_ASSIGN_OR_RETURN(const ExchangeAddresses parsed, ParseExchangeAddresses(address));
  std::vector<std::string> places{parsed.network};
  if (parsed.memory != parsed.network) places.push_back(parsed.memory);
  Listeners listeners;
  std::string bound;
  for (const std::string& place : places) {
    JANUS_ASSIGN_OR_RETURN(std::unique_ptr<ListeningSocket> socket, ListeningSocket::Create(place));
    bound += (bound.empty() ? "" : ",") + socket->address();
    JANUS_ASSIGN_OR_RETURN(std::unique_ptr<PendingConnections> pending,
                           PendingConnections::Create(std::move(socket), counts_));
    listeners.push_back(std::move(pending));
  }
  JANUS_ASSIGN_OR_RETURN(wake_, MakeEvent());
  bound_ = std::move(bound);
  address_ = address;
  thread_ = std::jthread([this, listeners = std::move(listeners)](const std::stop_token& stop) {
    Run(listeners, stop);
  });
  return OkStatus();
}

Result<std::shared_ptr<ExpectedEpoch>> ExchangeListener::Expect(const ExchangeIdentity& identity,
                                                                const TransportLayout& layout) {
  const uint64_t key_check = EpochKeyCheck(identity.epoch_key, identity.epoch);
  for (const std::shared_ptr<ExpectedEpoch>& epoch : Known()) {
    if (epoch->epoch() == identity.epoch && epoch->ours().key_check == key_check &&
        epoch->is_open()) {
      return epoch;
    }
  }
  JANUS_ASSIGN_OR_RETURN(Fd waiting, MakeEvent());
  auto epoch = std::make_shared<ExpectedEpoch>(identity, layout, std::move(waiting), counts_);
  const MutexLock lock(mu_);
  known_.push_back(epoch);
  return epoch;
}

void ExchangeListener::Serve(std::shared_ptr<ExpectedEpoch> epoch) {
  std::shared_ptr<ExpectedEpoch> before;  // released after mu_ is unlocked
  const MutexLock lock(mu_);
  before = std::exchange(served_, std::move(epoch));
}

std::vector<std::shared_ptr<ExpectedEpoch>> ExchangeListener::Known() {
  std::vector<std::shared_ptr<ExpectedEpoch>> known;
  const MutexLock lock(mu_);
  std::erase_if(known_, [](const auto& epoch) { return epoch.expired(); });
  for (const std::weak_ptr<ExpectedEpoch>& one : known_) {
    if (std::shared_ptr<ExpectedEpoch> epoch = one.lock()) known.push_back(std::move(epoch));
  }
  std::stable_sort(known.begin(), known.end(),
                   [](const auto& a, const auto& b) { return a->epoch() < b->epoch(); });
  return known;
}

void ExchangeListener::Run(const Listeners& listeners, const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] { Signal(wake_); });
  while (!stop.stop_requested()) {
    std::vector<pollfd> polls{{wake_.get(), POLLIN, 0}};
    std::optional<MonotonicTime> next;
    for (const auto& pending : listeners) {
      polls.push_back({pending->fd(), POLLIN, 0});
      if (const auto until = pending->next()) next = std::min(next.value_or(*until), *until);
    }
    poll(polls.data(), polls.size(), Milliseconds(next, MonotonicClock::now()));
    for (const auto& pending : listeners) {
      for (ReceivedHello& received : pending->Pass(MonotonicClock::now())) {
        Judge(std::move(received));
      }
    }
  }
}

void ExchangeListener::Judge(ReceivedHello received) {
  const std::vector<std::shared_ptr<ExpectedEpoch>> known = Known();
  if (known.empty()) return;
  // If two epochs have this number, use the newer one: the other was given up.
  const auto of_its_number = std::find_if(known.rbegin(), known.rend(), [&](const auto& epoch) {
    return epoch->epoch() == received.hello.epoch;
  });
  ExpectedEpoch& epoch = of_its_number != known.rend() ? **of_its_number : *known.back();
  const HelloVerdict verdict = Admit(received.hello, epoch.ours(), epoch.layout());
  if (!verdict.status.ok()) {
    for (const auto& one : known) one->NoteRefusal(verdict.status);
    if (verdict.refusal == ExchangeRefusal::kEpoch && received.hello.epoch > epoch.epoch()) return;
    Count(verdict.refusal);
    SendHello(received.socket.get(), MakeRefusal(epoch.ours(), verdict.status), "", {});
    return;
  }
  if (!epoch.Admit(received)) Count(ExchangeRefusal::kMember);
}

}  // namespace janus::dataplane
