#include "dataplane/comm/shared_memory.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "common/fd.h"
#include "dataplane/comm/segment.h"

namespace janus::dataplane {
namespace {

constexpr uint64_t kHelloMagic = 0x326f6c6c65686a31ULL;
constexpr size_t kHashChars = 80;
constexpr size_t kRefusalChars = 256;

// What both sides of a connection say first, with the descriptor of their segment. `refusal` is
// empty or says why the sender will not talk.
struct Hello {
  uint64_t magic = kHelloMagic;
  uint32_t wire_version = kWireVersion;
  uint16_t role = 0;
  uint16_t rank = 0;
  uint64_t epoch = 0;
  uint64_t tag = 0;
  uint64_t layout_hash = 0;
  char config_hash[kHashChars] = {};
  char refusal[kRefusalChars] = {};
};
static_assert(std::is_trivially_copyable_v<Hello>);

std::string ErrnoText() {
  return std::strerror(errno);
}

Result<sockaddr_un> Address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return InvalidArgument("socket path '" + path + "': " + std::to_string(path.size()) +
                           " bytes, at most " + std::to_string(sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

// Sends the hello with the segment's descriptor; false when the peer has gone.
bool SendHello(int socket, const Hello& hello, int segment) {
  iovec part{const_cast<Hello*>(&hello), sizeof hello};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (segment >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &segment, sizeof segment);
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof hello);
}

// One packet of exactly a Hello; anything else is a stranger.
bool ReceiveHello(int socket, Hello& hello, Fd& segment) {
  iovec part{&hello, sizeof hello};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); received > 0 && head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    int fd;
    std::memcpy(&fd, CMSG_DATA(head), sizeof fd);
    segment = Fd(fd);
  }
  if (received != static_cast<ssize_t>(sizeof hello) || hello.magic != kHelloMagic) return false;
  hello.config_hash[kHashChars - 1] = '\0';
  hello.refusal[kRefusalChars - 1] = '\0';
  return true;
}

Result<Segment> MapSegment(int fd, size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    return ResourceExhausted("exchange memory: cannot map " + std::to_string(bytes) +
                             " bytes: " + ErrnoText());
  }
  Segment segment;
  segment.base = static_cast<std::byte*>(memory);
  segment.bytes = bytes;
  segment.keep = std::shared_ptr<void>(memory, [bytes](void* p) { munmap(p, bytes); });
  return segment;
}

// The instance's own segment: a memfd of the size that the layout asks for, all of it allocated, so
// that short memory is an error here and not a bus error in a round.
Result<Segment> CreateSegment(const TransportLayout& layout, Fd& fd) {
  const size_t bytes = SegmentMap(layout, layout.self).bytes();
  fd = Fd(memfd_create("janus-exchange", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return ResourceExhausted("exchange memory: memfd_create: " + ErrnoText());
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return ResourceExhausted("exchange memory of " + std::to_string(bytes) +
                             " bytes: " + ErrnoText());
  }
  if (const int error = posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)); error != 0) {
    return ResourceExhausted("exchange memory of " + std::to_string(bytes) +
                             " bytes: " + std::strerror(error) +
                             "; lower maxBatchSize or give the machine more memory");
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return Internal("exchange memory: F_ADD_SEALS: " + ErrnoText());
  }
  JANUS_ASSIGN_OR_RETURN(Segment segment, MapSegment(fd.get(), bytes));
  InitSegment(segment, layout);
  return segment;
}

Result<Segment> MapPeerSegment(const Fd& fd, const TransportLayout& layout, PeerId peer) {
  struct stat info {};
  const int seals = fd ? fcntl(fd.get(), F_GET_SEALS) : -1;
  if (!fd || fstat(fd.get(), &info) != 0 || seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return InvalidArgument(ToString(peer) + " sent no sealed memory descriptor");
  }
  JANUS_ASSIGN_OR_RETURN(Segment segment, MapSegment(fd.get(), static_cast<size_t>(info.st_size)));
  JANUS_RETURN_IF_ERROR(CheckSegment(segment, layout, peer));
  return segment;
}

// A peer is gone when its end of the socket has closed: the kernel does that however it died.
class SocketLiveness final : public Liveness {
 public:
  void Add(PeerId peer, Fd socket) {
    polls_.push_back({socket.get(), POLLRDHUP, 0});
    peers_.push_back(peer);
    sockets_.push_back(std::move(socket));
  }

  Status Check() override {
    if (poll(polls_.data(), polls_.size(), 0) <= 0) return OkStatus();
    for (size_t i = 0; i < polls_.size(); ++i) {
      if (polls_[i].revents != 0)
        return Unavailable(ToString(peers_[i]) + " is gone: it closed its connection");
    }
    return OkStatus();
  }

 private:
  std::vector<pollfd> polls_;
  std::vector<PeerId> peers_;
  std::vector<Fd> sockets_;
};

class Connector {
 public:
  Connector(const TransportLayout& layout, const SharedMemoryOptions& options,
            ExchangeListener& listener)
      : layout_(layout),
        options_(options),
        listener_(listener),
        self_(MemberIndex(layout, layout.self)) {
    own_.role = static_cast<uint16_t>(layout.self.role);
    own_.rank = static_cast<uint16_t>(layout.self.rank.value);
    own_.epoch = options.epoch;
    own_.tag = options.tag;
    own_.layout_hash = LayoutHash(layout);
    std::strncpy(own_.config_hash, options.config_hash.c_str(), kHashChars - 1);
  }

  Result<std::unique_ptr<Transport>> Run(std::stop_token stop) {
    const auto members = static_cast<size_t>(layout_.m + layout_.n);
    segments_.resize(members);
    JANUS_ASSIGN_OR_RETURN(segments_[static_cast<size_t>(self_)], CreateSegment(layout_, fd_));
    for (size_t member = 0; member < members; ++member) {
      if (Talks(static_cast<int>(member))) missing_.push_back(static_cast<int>(member));
    }
    while (!missing_.empty()) {
      if (stop.stop_requested() || (options_.keep_waiting && !options_.keep_waiting())) {
        return Cancelled("connecting was aborted");
      }
      if (MonotonicClock::now() >= options_.deadline) return Late();
      JANUS_RETURN_IF_ERROR(Dial());
      JANUS_RETURN_IF_ERROR(Listen());
    }
    return std::unique_ptr<Transport>(
        std::make_unique<SegmentTransport>(layout_, options_.tag, std::move(segments_),
                                           options_.policy, std::move(liveness_), "shared memory"));
  }

 private:
  struct Dialled {
    int member;
    Fd socket;
  };

  bool Talks(int member) const {
    if (member == self_) return false;
    return member < layout_.m || self_ < layout_.m;
  }

  Status Late() const {
    std::string who;
    for (const int member : missing_)
      who += (who.empty() ? "" : ", ") + ToString(MemberAt(layout_, member));
    return DeadlineExceeded("exchange: " + who +
                            " did not connect in time; see the logs of those workers" +
                            (last_refusal_.empty() ? "" : " (refused: " + last_refusal_ + ")"));
  }

  // Dials every missing peer of a lower number that has no dialled socket yet.
  Status Dial() {
    for (const int member : missing_) {
      if (member > self_) continue;
      if (std::any_of(dialled_.begin(), dialled_.end(),
                      [&](const Dialled& d) { return d.member == member; })) {
        continue;
      }
      const std::string& path = options_.attention_paths[static_cast<size_t>(member)];
      JANUS_ASSIGN_OR_RETURN(const sockaddr_un address, Address(path));
      Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
      if (!socket) return ResourceExhausted("exchange: socket: " + ErrnoText());
      if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        continue;
      }
      // The peer answers as soon as it prepares the same epoch; until then it has our hello
      // waiting.
      if (SendHello(socket.get(), own_, fd_.get())) dialled_.push_back({member, std::move(socket)});
    }
    return OkStatus();
  }

  // Waits a moment for strangers at the door and for answers to what was dialled.
  Status Listen() {
    std::vector<pollfd> polls{{listener_.fd(), POLLIN, 0}};
    for (const Dialled& d : dialled_) polls.push_back({d.socket.get(), POLLIN, 0});
    constexpr int kRetryMilliseconds = 20;
    if (poll(polls.data(), polls.size(), kRetryMilliseconds) < 0 && errno != EINTR) {
      return Internal("exchange: poll: " + ErrnoText());
    }
    for (size_t i = dialled_.size(); i-- > 0;) {
      if (polls[i + 1].revents == 0) continue;
      Dialled d = std::move(dialled_[i]);
      dialled_.erase(dialled_.begin() + static_cast<ptrdiff_t>(i));
      Hello hello;
      Fd segment;
      // Closed without an answer: the peer is not that far or has restarted; it is dialled again.
      if (!ReceiveHello(d.socket.get(), hello, segment)) continue;
      if (hello.refusal[0] != '\0') return FailedPrecondition(std::string(hello.refusal));
      JANUS_RETURN_IF_ERROR(Judge(hello, MemberAt(layout_, d.member)));
      JANUS_RETURN_IF_ERROR(Enter(d.member, std::move(d.socket), segment));
    }
    return (polls[0].revents & POLLIN) != 0 ? Accept() : OkStatus();
  }

  Status Accept() {
    Fd socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) return OkStatus();
    ucred peer{};
    socklen_t size = sizeof peer;
    if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
        peer.uid != geteuid()) {
      return OkStatus();
    }
    // A peer sends its hello right after connecting; who does not is not waited for.
    const timeval patience{1, 0};
    setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    Hello hello;
    Fd segment;
    if (!ReceiveHello(socket.get(), hello, segment)) return OkStatus();
    const PeerId from{static_cast<Role>(hello.role), Rank{hello.rank}};
    const int limit = from.role == Role::kAttention ? layout_.m : layout_.n;
    const Status judged = hello.role > 1 || from.rank.value >= limit
                              ? FailedPrecondition(ToString(from) + " is not in the topology")
                              : Judge(hello, from);
    if (!judged.ok()) {
      // Told why, it gives up; the member that was meant may still come.
      Hello refusal = own_;
      std::strncpy(refusal.refusal, judged.message().c_str(), kRefusalChars - 1);
      SendHello(socket.get(), refusal, -1);
      last_refusal_ = judged.message();
      return OkStatus();
    }
    const int member = MemberIndex(layout_, from);
    if (std::find(missing_.begin(), missing_.end(), member) == missing_.end()) return OkStatus();
    if (!SendHello(socket.get(), own_, fd_.get())) return OkStatus();
    return Enter(member, std::move(socket), segment);
  }

  Status Judge(const Hello& theirs, PeerId peer) const {
    const auto differs = [&](const std::string& field, const std::string& their_value,
                             const std::string& our_value) {
      return FailedPrecondition("exchange: " + ToString(peer) + " has " + field + " " +
                                their_value + ", " + ToString(layout_.self) + " has " + our_value);
    };
    if (theirs.wire_version != own_.wire_version) {
      return differs("wire version", std::to_string(theirs.wire_version),
                     std::to_string(own_.wire_version));
    }
    if (theirs.epoch != own_.epoch) {
      return differs("epoch", std::to_string(theirs.epoch), std::to_string(own_.epoch));
    }
    if (theirs.tag != own_.tag)
      return FailedPrecondition("exchange: " + ToString(peer) + " has another epoch key");
    if (std::strcmp(theirs.config_hash, own_.config_hash) != 0) {
      return differs("configuration", theirs.config_hash, own_.config_hash);
    }
    if (theirs.layout_hash != own_.layout_hash) {
      return differs("slot layout", std::to_string(theirs.layout_hash),
                     std::to_string(own_.layout_hash));
    }
    return OkStatus();
  }

  Status Enter(int member, Fd socket, const Fd& segment) {
    JANUS_ASSIGN_OR_RETURN(segments_[static_cast<size_t>(member)],
                           MapPeerSegment(segment, layout_, MemberAt(layout_, member)));
    liveness_->Add(MemberAt(layout_, member), std::move(socket));
    std::erase(missing_, member);
    return OkStatus();
  }

  const TransportLayout& layout_;
  const SharedMemoryOptions& options_;
  ExchangeListener& listener_;
  const int self_;
  Hello own_;
  Fd fd_;
  std::vector<std::optional<Segment>> segments_;
  std::vector<int> missing_;  // not connected
  std::vector<Dialled> dialled_;
  std::string last_refusal_;
  std::unique_ptr<SocketLiveness> liveness_ = std::make_unique<SocketLiveness>();
};

}  // namespace

Result<std::unique_ptr<ExchangeListener>> ExchangeListener::Create(const std::string& path) {
  JANUS_ASSIGN_OR_RETURN(const sockaddr_un address, Address(path));
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return ResourceExhausted("exchange: socket: " + ErrnoText());
  unlink(path.c_str());
  constexpr int kBacklog = 1024;
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(socket.get(), kBacklog) != 0) {
    return Unavailable("exchange: cannot listen on '" + path + "': " + ErrnoText());
  }
  return std::unique_ptr<ExchangeListener>(new ExchangeListener(socket.Release(), path));
}

ExchangeListener::~ExchangeListener() {
  close(fd_);
  unlink(path_.c_str());
}

Result<std::unique_ptr<Transport>> ConnectSharedMemory(const TransportLayout& layout,
                                                       const SharedMemoryOptions& options,
                                                       ExchangeListener& listener,
                                                       std::stop_token stop) {
  return Connector(layout, options, listener).Run(std::move(stop));
}

}  // namespace janus::dataplane
