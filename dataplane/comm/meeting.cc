#include "dataplane/comm/meeting.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "dataplane/comm/hello_reader.h"

namespace janus::dataplane {
namespace {

constexpr auto kRedial = std::chrono::milliseconds(20);
constexpr auto kPatience = std::chrono::seconds(5);  // with somebody who connects and says nothing
constexpr size_t kMostStrangers = 256;
constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kTcp = "tcp:";

std::string ErrnoText() {
  return std::strerror(errno);
}

struct Address {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Result<Address> UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return InvalidArgument("exchange address: socket path '" + path +
                           "': " + std::to_string(path.size()) + " bytes, want 1 to " +
                           std::to_string(sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  Address out;
  std::memcpy(&out.storage, &address, sizeof address);
  out.bytes = sizeof address;
  return out;
}

// Numbers alone: a name would have to be looked up, which blocks.
Result<Address> TcpAddress(const std::string& text) {
  const Status bad = InvalidArgument("exchange address 'tcp:" + text +
                                     "': want tcp:<IPv4>:<port> or tcp:[<IPv6>]:<port>");
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return bad;
  uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + colon + 1, end, port);
  if (parsed.ec != std::errc() || parsed.ptr != end) return bad;
  std::string host = text.substr(0, colon);
  Address out;
  if (host.starts_with('[') && host.ends_with(']')) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    host = host.substr(1, host.size() - 2);
    if (inet_pton(AF_INET6, host.c_str(), &address.sin6_addr) != 1) return bad;
    std::memcpy(&out.storage, &address, sizeof address);
    out.bytes = sizeof address;
    return out;
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) return bad;
  std::memcpy(&out.storage, &address, sizeof address);
  out.bytes = sizeof address;
  return out;
}

Result<Address> ParseAddress(const std::string& text) {
  if (text.starts_with(kUnix)) return UnixAddress(text.substr(kUnix.size()));
  if (text.starts_with(kTcp)) return TcpAddress(text.substr(kTcp.size()));
  return InvalidArgument("exchange address '" + text + "': want unix:/path or tcp:host:port");
}

// `address` with the port that the socket was given.
std::string WithPort(const std::string& address, int fd) {
  sockaddr_storage bound{};
  socklen_t bytes = sizeof bound;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &bytes) != 0) return address;
  const uint16_t port = bound.ss_family == AF_INET6
                            ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                            : reinterpret_cast<const sockaddr_in&>(bound).sin_port;
  return address.substr(0, address.rfind(':') + 1) + std::to_string(ntohs(port));
}

// HELLO is small and must go at once; a machine that has vanished must be noticed.
void TuneTcp(int fd) {
  const int on = 1, idle = 5, interval = 1, patience_ms = 10'000;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof patience_ms);
}

// Sends HELLO with what belongs to it; false when the peer has gone. Far smaller than what the
// buffer of a new socket holds.
bool SendHello(int socket, const Hello& hello, const std::string& address, int segment) {
  iovec parts[2] = {{const_cast<Hello*>(&hello), sizeof hello},
                    {const_cast<char*>(address.data()), hello.address_bytes}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  if (segment >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &segment, sizeof segment);
  }
  const auto bytes = static_cast<ssize_t>(sizeof hello + hello.address_bytes);
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == bytes;
}

// A connection on which HELLO is not complete.
struct Conversation {
  Fd socket;
  int member = -1;         // whom we dialled; -1: somebody who dialled us
  bool greeted = false;    // ours is sent
  MonotonicTime deadline;  // of a stranger
  HelloReader reader;
};

class Meeting {
 public:
  Meeting(const TransportLayout& layout, const ConnectOptions& options, const Offer& offer,
          ExchangeListener& listener)
      : layout_(layout),
        options_(options),
        offer_(offer),
        listener_(listener),
        self_(MemberIndex(layout, layout.self)),
        redial_at_(static_cast<size_t>(layout.m + layout.n)) {
    for (const PeerId peer : PeersOf(layout)) missing_.push_back(MemberIndex(layout, peer));
  }

  Result<std::vector<Met>> Run(const std::stop_token& stop) {
    while (!missing_.empty()) {
      if (stop.stop_requested() || (options_.keep_waiting && !options_.keep_waiting())) {
        return Cancelled("connecting was aborted");
      }
      if (MonotonicClock::now() >= options_.deadline) return Late();
      JANUS_RETURN_IF_ERROR(Dial());
      JANUS_RETURN_IF_ERROR(Attend());
    }
    return std::move(met_);
  }

 private:
  Status Late() const {
    std::string who;
    for (const int member : missing_)
      who += (who.empty() ? "" : ", ") + ToString(MemberAt(layout_, member));
    return DeadlineExceeded("exchange: " + who +
                            " did not connect in time; see the logs of those workers" +
                            (last_refusal_.empty() ? "" : " (refused: " + last_refusal_ + ")"));
  }

  bool IsMissing(int member) const {
    return std::find(missing_.begin(), missing_.end(), member) != missing_.end();
  }

  Hello HelloTo(int member) const {
    const PairTransport transport = offer_.transport(MemberAt(layout_, member));
    const size_t address = transport == PairTransport::kUcx ? offer_.address.size() : 0;
    return MakeHello(options_.identity, layout_, transport, address);
  }

  bool Greet(int socket, int member) const {
    const Hello hello = HelloTo(member);
    const bool shares = hello.transport == PairTransport::kSharedMemory;
    return SendHello(socket, hello, offer_.address, shares ? offer_.segment : -1);
  }

  // Dials every missing peer of a lower number that is not being dialled.
  Status Dial() {
    const MonotonicTime now = MonotonicClock::now();
    for (const int member : missing_) {
      MonotonicTime& redial_at = redial_at_[static_cast<size_t>(member)];
      if (member > self_ || now < redial_at) continue;
      if (std::any_of(talks_.begin(), talks_.end(),
                      [&](const Conversation& t) { return t.member == member; })) {
        continue;
      }
      const std::string& text = options_.attention_addresses[static_cast<size_t>(member)];
      JANUS_ASSIGN_OR_RETURN(const Address address, ParseAddress(text));
      const int family = address.storage.ss_family;
      Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!socket) return ResourceExhausted("exchange: socket: " + ErrnoText());
      if (family != AF_UNIX) TuneTcp(socket.get());
      redial_at = now + kRedial;
      if (connect(socket.get(), address.get(), address.bytes) != 0 && errno != EINPROGRESS) {
        continue;
      }
      Conversation talk;
      talk.socket = std::move(socket);
      talk.member = member;
      talks_.push_back(std::move(talk));
    }
    return OkStatus();
  }

  // Waits a moment for strangers at the door, for answers, and for the end of who was met.
  Status Attend() {
    std::vector<pollfd> polls{{listener_.fd(), POLLIN, 0}};
    for (const Conversation& talk : talks_) {
      const bool dialling = talk.member >= 0 && !talk.greeted;
      polls.push_back({talk.socket.get(), static_cast<short>(dialling ? POLLOUT : POLLIN), 0});
    }
    for (const Met& met : met_) polls.push_back({met.socket.get(), POLLRDHUP, 0});
    if (poll(polls.data(), polls.size(), static_cast<int>(kRedial.count())) < 0) {
      if (errno == EINTR) return OkStatus();
      return Internal("exchange: poll: " + ErrnoText());
    }
    for (size_t i = 0; i < met_.size(); ++i) {
      if (polls[1 + talks_.size() + i].revents == 0) continue;
      return Unavailable(ToString(met_[i].peer) +
                         " is gone: it closed its connection while others were awaited");
    }
    std::vector<Conversation> talks;
    talks.swap(talks_);
    const MonotonicTime now = MonotonicClock::now();
    for (size_t i = 0; i < talks.size(); ++i) {
      Conversation& talk = talks[i];
      bool keep = talk.member >= 0 || now < talk.deadline;
      if (polls[i + 1].revents != 0) {
        JANUS_ASSIGN_OR_RETURN(keep, talk.member >= 0 ? Answered(talk) : Heard(talk));
      }
      if (keep) talks_.push_back(std::move(talk));
    }
    if ((polls[0].revents & POLLIN) != 0) Accept();
    return OkStatus();
  }

  // Somebody we dialled; false when the conversation has ended.
  Result<bool> Answered(Conversation& talk) {
    if (!talk.greeted) {
      int error = 0;
      socklen_t size = sizeof error;
      getsockopt(talk.socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      // The peer answers as soon as it prepares the same epoch; until then it has ours waiting.
      talk.greeted = error == 0 && Greet(talk.socket.get(), talk.member);
      return talk.greeted;
    }
    const HelloReader::State state = talk.reader.Read(talk.socket.get());
    if (state == HelloReader::State::kMore) return true;
    // Closed without an answer: the peer is not that far or has restarted; it is dialled again.
    if (state == HelloReader::State::kBroken) return false;
    const Hello& hello = talk.reader.hello;
    if (const std::string why = RefusalText(hello); !why.empty()) return FailedPrecondition(why);
    const Hello ours = HelloTo(talk.member);
    JANUS_RETURN_IF_ERROR(Judge(hello, ours, layout_, OfRole(SenderOf(hello).role, ours)));
    if (MemberIndex(layout_, SenderOf(hello)) != talk.member) {
      return FailedPrecondition("exchange: " + ToString(SenderOf(hello)) + " answers at '" +
                                options_.attention_addresses[static_cast<size_t>(talk.member)] +
                                "', the topology has " + ToString(MemberAt(layout_, talk.member)) +
                                " there");
    }
    Enter(talk.member, talk);
    return false;
  }

  // Somebody who dialled us.
  Result<bool> Heard(Conversation& talk) {
    const HelloReader::State state = talk.reader.Read(talk.socket.get());
    if (state != HelloReader::State::kWhole) return state == HelloReader::State::kMore;
    const Hello& hello = talk.reader.hello;
    const int member = MemberIndex(layout_, SenderOf(hello));
    const bool known = member >= 0 && member < layout_.m + layout_.n && member != self_;
    // Who is unknown is judged against what we would tell anybody.
    const Hello ours = HelloTo(known ? member : (self_ == 0 ? layout_.m : 0));
    const Status judged = Judge(hello, ours, layout_, OfRole(SenderOf(hello).role, ours));
    if (!judged.ok()) {
      last_refusal_ = judged.message();
      // Who comes from a newer epoch finds it here once ours has been given up: it dials again. All
      // others give up, told why; the member that was meant may still come.
      if (hello.epoch <= ours.epoch) {
        SendHello(talk.socket.get(), MakeRefusal(ours, judged), "", -1);
      }
      return false;
    }
    if (member < self_ || !IsMissing(member)) return false;
    if (Greet(talk.socket.get(), member)) Enter(member, talk);
    return false;
  }

  void Accept() {
    for (;;) {
      Fd socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) return;
      if (listener_.address().starts_with(kUnix)) {
        ucred peer{};
        socklen_t size = sizeof peer;
        if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
            peer.uid != geteuid()) {
          continue;
        }
      } else {
        TuneTcp(socket.get());
      }
      const auto is_stranger = [](const Conversation& talk) { return talk.member < 0; };
      if (static_cast<size_t>(std::count_if(talks_.begin(), talks_.end(), is_stranger)) >=
          kMostStrangers) {
        talks_.erase(std::find_if(talks_.begin(), talks_.end(), is_stranger));  // the oldest
      }
      Conversation talk;
      talk.socket = std::move(socket);
      talk.deadline = MonotonicClock::now() + kPatience;
      talks_.push_back(std::move(talk));
    }
  }

  // A member of the role whose numerics class is known.
  const Hello* OfRole(Role role, const Hello& ours) const {
    if (role == layout_.self.role) return &ours;
    return first_of_other_role_ ? &*first_of_other_role_ : nullptr;
  }

  void Enter(int member, Conversation& talk) {
    if (const Hello& hello = talk.reader.hello;
        SenderOf(hello).role != layout_.self.role && !first_of_other_role_) {
      first_of_other_role_ = hello;
    }
    met_.push_back({MemberAt(layout_, member), std::move(talk.socket),
                    std::move(talk.reader.segment), std::move(talk.reader.address)});
    std::erase(missing_, member);
  }

  const TransportLayout& layout_;
  const ConnectOptions& options_;
  const Offer& offer_;
  ExchangeListener& listener_;
  const int self_;
  std::vector<MonotonicTime> redial_at_;  // by member
  std::vector<int> missing_;              // not met
  std::vector<Conversation> talks_;
  std::vector<Met> met_;
  std::optional<Hello> first_of_other_role_;
  std::string last_refusal_;
};

}  // namespace

Result<std::unique_ptr<ExchangeListener>> ExchangeListener::Create(const std::string& address) {
  JANUS_ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  const bool is_unix = parsed.storage.ss_family == AF_UNIX;
  Fd socket(::socket(parsed.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return ResourceExhausted("exchange: socket: " + ErrnoText());
  if (is_unix) {
    unlink(address.c_str() + kUnix.size());
  } else {
    const int on = 1;
    setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  }
  constexpr int kBacklog = 1024;
  if (bind(socket.get(), parsed.get(), parsed.bytes) != 0 || listen(socket.get(), kBacklog) != 0) {
    return Unavailable("exchange: cannot listen on '" + address + "': " + ErrnoText());
  }
  std::string bound = is_unix ? address : WithPort(address, socket.get());
  return std::unique_ptr<ExchangeListener>(
      new ExchangeListener(std::move(socket), std::move(bound)));
}

ExchangeListener::~ExchangeListener() {
  if (address_.starts_with(kUnix)) unlink(address_.c_str() + kUnix.size());
}

Result<std::vector<Met>> MeetPeers(const TransportLayout& layout, const ConnectOptions& options,
                                   const Offer& offer, ExchangeListener& listener,
                                   std::stop_token stop) {
  return Meeting(layout, options, offer, listener).Run(stop);
}

void PeerSockets::Add(PeerId peer, Fd socket) {
  polls_.push_back({socket.get(), POLLIN | POLLRDHUP, 0});
  peers_.push_back(peer);
  sockets_.push_back(std::move(socket));
}

Status PeerSockets::Check() {
  if (poll(polls_.data(), polls_.size(), 0) <= 0) return OkStatus();
  for (size_t i = 0; i < polls_.size(); ++i) {
    if ((polls_[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
      return Unavailable(ToString(peers_[i]) + " is gone: it closed its connection");
    }
  }
  return OkStatus();
}

void PeerSockets::Drain() {
  // A peer rings once per wait of ours; one that never stops must not keep us here.
  char bytes[256];
  for (const Fd& socket : sockets_) (void)recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
}

}  // namespace janus::dataplane
