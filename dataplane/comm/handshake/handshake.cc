#include "dataplane/comm/handshake/handshake.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "dataplane/comm/handshake/exchange_address.h"
#include "dataplane/comm/handshake/hello_reader.h"
#include "dataplane/comm/handshake/send_hello.h"

namespace janus::dataplane {
namespace {

constexpr auto kRedial = std::chrono::milliseconds(20);

std::string ErrnoText() {
  return std::strerror(errno);
}

// A member that we have dialled and that has not answered yet.
struct Conversation {
  Fd socket;
  int member = 0;
  bool is_hello_sent = false;  // our HELLO is sent
  HelloReader reader;
};

class Handshake {
 public:
  Handshake(const TransportLayout& layout, const ConnectOptions& options, const Offer& offer,
            ExpectedEpoch& epoch)
      : layout_(layout),
        options_(options),
        offer_(offer),
        epoch_(epoch),
        self_(MemberIndex(layout, layout.self)),
        redial_at_(static_cast<size_t>(layout.m + layout.n)) {
    for (const PeerId peer : PeersOf(layout)) missing_.push_back(MemberIndex(layout, peer));
  }

  Result<std::vector<ConnectedPeer>> Run(const std::stop_token& stop) {
    while (!missing_.empty() || !unanswered_.empty()) {
      if (stop.stop_requested() || (options_.keep_waiting && !options_.keep_waiting())) {
        return Cancelled("connecting was aborted");
      }
      if (MonotonicClock::now() >= options_.deadline) return TimedOut();
      JANUS_RETURN_IF_ERROR(Dial());
      JANUS_RETURN_IF_ERROR(PollOnce());
    }
    epoch_.Close();
    return std::move(connected_);
  }

 private:
  Status TimedOut() const {
    std::string who;
    for (const std::vector<int>* members : {&missing_, &unanswered_}) {
      for (const int member : *members) {
        who += (who.empty() ? "" : ", ") + ToString(MemberAt(layout_, member));
      }
    }
    const std::string refused = epoch_.last_refusal();
    return DeadlineExceeded("exchange: " + who +
                            " did not connect in time; see the logs of those workers" +
                            (refused.empty() ? "" : " (refused: " + refused + ")"));
  }

  static Status Gone(PeerId peer) {
    return Unavailable(ToString(peer) +
                       " is gone: it closed its connection while others were awaited");
  }
  static bool Contains(const std::vector<int>& members, int member) {
    return std::find(members.begin(), members.end(), member) != members.end();
  }

  bool SharesMemoryWith(int member) const {
    return offer_.transport(MemberAt(layout_, member)) == PairTransport::kSharedMemory;
  }

  Hello HelloTo(int member) const {
    const PairTransport transport = offer_.transport(MemberAt(layout_, member));
    const size_t address = transport == PairTransport::kUcx ? offer_.address.size() : 0;
    return MakeHello(options_.identity, layout_, transport, address);
  }

  bool SendOurHello(int socket, int member) const {
    const Hello hello = HelloTo(member);
    const bool shares = hello.transport == PairTransport::kSharedMemory;
    std::vector<int> descriptors;
    if (shares && offer_.segment >= 0) descriptors.push_back(offer_.segment);
    const bool is_mate = MemberAt(layout_, member).role == layout_.self.role;
    const int device = is_mate ? offer_.landing : offer_.device;
    if (shares && device >= 0) descriptors.push_back(device);
    return SendHello(socket, hello, offer_.address, descriptors);
  }

  // Dials every missing peer with a lower number, unless it is being dialled already.
  Status Dial() {
    const MonotonicTime now = MonotonicClock::now();
    for (const int member : missing_) {
      MonotonicTime& redial_at = redial_at_[static_cast<size_t>(member)];
      if (member > self_ || now < redial_at) continue;
      if (std::any_of(conversations_.begin(), conversations_.end(),
                      [&](const Conversation& t) { return t.member == member; })) {
        continue;
      }
      const std::string& text = options_.addresses[static_cast<size_t>(member)];
      JANUS_ASSIGN_OR_RETURN(const ExchangeAddresses its, ParseExchangeAddresses(text));
      JANUS_ASSIGN_OR_RETURN(
          const ExchangeAddress address,
          ParseExchangeAddress(SharesMemoryWith(member) ? its.memory : its.network));
      Fd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!socket) return ResourceExhausted("exchange: socket: " + ErrnoText());
      if (!address.is_unix()) TuneTcp(socket.get());
      redial_at = now + kRedial;
      if (connect(socket.get(), address.get(), address.bytes) != 0 && errno != EINPROGRESS) {
        continue;
      }
      Conversation talk;
      talk.socket = std::move(socket);
      talk.member = member;
      conversations_.push_back(std::move(talk));
    }
    return OkStatus();
  }

  // Waits a moment for new connections, for answers, and for connected peers that close.
  Status PollOnce() {
    std::vector<pollfd> polls{{epoch_.fd(), POLLIN, 0}};
    for (const Conversation& talk : conversations_) {
      polls.push_back(
          {talk.socket.get(), static_cast<short>(talk.is_hello_sent ? POLLIN : POLLOUT), 0});
    }
    for (const ConnectedPeer& peer : connected_) {
      const bool is_silent = Contains(unanswered_, MemberIndex(layout_, peer.peer));
      polls.push_back(
          {peer.socket.get(), static_cast<short>(is_silent ? POLLIN | POLLRDHUP : POLLRDHUP), 0});
    }
    if (poll(polls.data(), polls.size(), static_cast<int>(kRedial.count())) < 0) {
      if (errno == EINTR) return OkStatus();
      return Internal("exchange: poll: " + ErrnoText());
    }
    for (size_t i = 0; i < connected_.size(); ++i) {
      const short revents = polls[1 + conversations_.size() + i].revents;
      if (revents == 0) continue;
      // Read first: bytes that the peer sent before it closed still count.
      if ((revents & POLLIN) == 0) return Gone(connected_[i].peer);
      JANUS_RETURN_IF_ERROR(ReadMapsByte(connected_[i]));
    }
    std::vector<Conversation> talks;
    talks.swap(conversations_);
    for (size_t i = 0; i < talks.size(); ++i) {
      Conversation& talk = talks[i];
      bool keep = true;
      if (polls[i + 1].revents != 0) {
        JANUS_ASSIGN_OR_RETURN(keep, OnAnswer(talk));
      }
      if (keep) conversations_.push_back(std::move(talk));
    }
    if (polls[0].revents != 0) {
      for (ReceivedHello& received : epoch_.Take()) OnHello(received);
    }
    return OkStatus();
  }

  // Handles the answer of a member that we dialled. False: the conversation has ended.
  Result<bool> OnAnswer(Conversation& talk) {
    if (!talk.is_hello_sent) {
      int error = 0;
      socklen_t size = sizeof error;
      getsockopt(talk.socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      // The peer answers as soon as it prepares the same epoch; until then our HELLO waits there.
      talk.is_hello_sent = error == 0 && SendOurHello(talk.socket.get(), talk.member);
      return talk.is_hello_sent;
    }
    const HelloReader::State state = talk.reader.Read(talk.socket.get());
    if (state == HelloReader::State::kMore) return true;
    // Closed without an answer: the peer does not expect the epoch yet or has restarted. We dial
    // again.
    if (state == HelloReader::State::kBroken) return false;
    const Hello& hello = talk.reader.hello;
    if (const std::string why = RefusalText(hello); !why.empty()) return FailedPrecondition(why);
    const Hello ours = HelloTo(talk.member);
    JANUS_RETURN_IF_ERROR(Judge(hello, ours, layout_, OfRole(SenderOf(hello).role, ours)));
    if (MemberIndex(layout_, SenderOf(hello)) != talk.member) {
      return FailedPrecondition("exchange: " + ToString(SenderOf(hello)) + " answers at '" +
                                options_.addresses[static_cast<size_t>(talk.member)] +
                                "', the topology has " + ToString(MemberAt(layout_, talk.member)) +
                                " there");
    }
    AddPeer(talk.member, hello,
            {MemberAt(layout_, talk.member), std::move(talk.socket), std::move(talk.reader.segment),
             std::move(talk.reader.address)},
            talk.reader.device);
    return false;
  }

  // Handles a HELLO that the listener handed over.
  void OnHello(ReceivedHello& received) {
    const int member = MemberIndex(layout_, SenderOf(received.hello));
    const Hello ours = HelloTo(member);
    Status judged =
        Judge(received.hello, ours, layout_, OfRole(SenderOf(received.hello).role, ours));
    if (judged.ok() && SharesMemoryWith(member) && !received.is_local) {
      judged = FailedPrecondition("exchange: " + ToString(MemberAt(layout_, member)) +
                                  " shares memory with " + ToString(layout_.self) +
                                  " but came over TCP; it needs the address of a Unix socket too");
    }
    if (!judged.ok()) {
      // Keep waiting: the right process may still connect.
      epoch_.NoteRefusal(judged);
      return epoch_.Refuse(received, &judged);
    }
    if (!Contains(missing_, member)) return epoch_.Refuse(received, nullptr);
    if (!SendOurHello(received.socket.get(), member)) return;
    AddPeer(member, received.hello,
            {MemberAt(layout_, member), std::move(received.socket), std::move(received.segment),
             std::move(received.address)},
            received.device);
  }

  // The HELLO of a known member of `role`, for its numerics class.
  const Hello* OfRole(Role role, const Hello& ours) const {
    if (role == layout_.self.role) return &ours;
    return first_of_other_role_ ? &*first_of_other_role_ : nullptr;
  }

  void AddPeer(int member, const Hello& hello, ConnectedPeer peer, const Fd& device) {
    if (SenderOf(hello).role != layout_.self.role && !first_of_other_role_) {
      first_of_other_role_ = hello;
    }
    const bool shares = offer_.transport(peer.peer) == PairTransport::kSharedMemory;
    const bool maps = shares && offer_.map_device && offer_.map_device(peer.peer, device);
    const MapsDevice says = maps ? MapsDevice::kYes : MapsDevice::kNo;
    // If the peer is gone by now, the next poll notices it.
    (void)send(peer.socket.get(), &says, sizeof says, MSG_NOSIGNAL | MSG_DONTWAIT);
    connected_.push_back(std::move(peer));
    std::erase(missing_, member);
    unanswered_.push_back(member);
  }

  // Reads whether a connected peer maps our memory. Reads one byte only: what follows belongs to
  // the transport.
  Status ReadMapsByte(ConnectedPeer& peer) {
    char byte = 0;
    const ssize_t got = recv(peer.socket.get(), &byte, 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return OkStatus();
    if (got != 1) return Gone(peer.peer);
    const auto said = static_cast<MapsDevice>(byte);
    if (said != MapsDevice::kYes && said != MapsDevice::kNo) {
      return Internal("exchange: " + ToString(peer.peer) +
                      " does not say whether it maps our GPU's memory");
    }
    peer.maps_ours = said == MapsDevice::kYes;
    std::erase(unanswered_, MemberIndex(layout_, peer.peer));
    return OkStatus();
  }

  const TransportLayout& layout_;
  const ConnectOptions& options_;
  const Offer& offer_;
  ExpectedEpoch& epoch_;
  const int self_;
  std::vector<MonotonicTime> redial_at_;  // by member
  std::vector<int> missing_;              // not connected yet
  std::vector<int> unanswered_;           // connected; has not said whether it maps our GPU memory
  std::vector<Conversation> conversations_;
  std::vector<ConnectedPeer> connected_;
  std::optional<Hello> first_of_other_role_;
};

}  // namespace

std::vector<PeerId> PeersThatMapOurs(const std::vector<ConnectedPeer>& peers) {
  std::vector<PeerId> who;
  for (const ConnectedPeer& peer : peers) {
    if (peer.maps_ours) who.push_back(peer.peer);
  }
  return who;
}

Result<std::vector<ConnectedPeer>> ConnectPeers(const TransportLayout& layout,
                                                const ConnectOptions& options, const Offer& offer,
                                                ExchangeListener& listener, std::stop_token stop) {
  JANUS_ASSIGN_OR_RETURN(const std::shared_ptr<ExpectedEpoch> epoch,
                         listener.Expect(options.identity, layout));
  return Handshake(layout, options, offer, *epoch).Run(stop);
}

}  // namespace janus::dataplane
