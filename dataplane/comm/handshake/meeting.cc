#include "dataplane/comm/handshake/meeting.h"

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

// With a member that we have dialled and that has not answered.
struct Conversation {
  Fd socket;
  int member = 0;
  bool greeted = false;  // ours is sent
  HelloReader reader;
};

class Meeting {
 public:
  Meeting(const TransportLayout& layout, const ConnectOptions& options, const Offer& offer,
          EpochAtDoor& door)
      : layout_(layout),
        options_(options),
        offer_(offer),
        door_(door),
        self_(MemberIndex(layout, layout.self)),
        redial_at_(static_cast<size_t>(layout.m + layout.n)) {
    for (const PeerId peer : PeersOf(layout)) missing_.push_back(MemberIndex(layout, peer));
  }

  Result<std::vector<Met>> Run(const std::stop_token& stop) {
    while (!missing_.empty() || !silent_.empty()) {
      if (stop.stop_requested() || (options_.keep_waiting && !options_.keep_waiting())) {
        return Cancelled("connecting was aborted");
      }
      if (MonotonicClock::now() >= options_.deadline) return Late();
      JANUS_RETURN_IF_ERROR(Dial());
      JANUS_RETURN_IF_ERROR(Attend());
    }
    door_.Close();
    return std::move(met_);
  }

 private:
  Status Late() const {
    std::string who;
    for (const std::vector<int>* members : {&missing_, &silent_}) {
      for (const int member : *members) {
        who += (who.empty() ? "" : ", ") + ToString(MemberAt(layout_, member));
      }
    }
    const std::string refused = door_.last_refusal();
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

  Hello HelloTo(int member) const {
    const PairTransport transport = offer_.transport(MemberAt(layout_, member));
    const size_t address = transport == PairTransport::kUcx ? offer_.address.size() : 0;
    return MakeHello(options_.identity, layout_, transport, address);
  }

  bool Greet(int socket, int member) const {
    const Hello hello = HelloTo(member);
    const bool shares = hello.transport == PairTransport::kSharedMemory;
    std::vector<int> descriptors;
    if (shares && offer_.segment >= 0) descriptors.push_back(offer_.segment);
    if (shares && offer_.device >= 0) descriptors.push_back(offer_.device);
    return SendHello(socket, hello, offer_.address, descriptors);
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
      JANUS_ASSIGN_OR_RETURN(const ExchangeAddress address, ParseExchangeAddress(text));
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
      talks_.push_back(std::move(talk));
    }
    return OkStatus();
  }

  // Waits a moment for who calls, for answers, and for the end of who was met.
  Status Attend() {
    std::vector<pollfd> polls{{door_.fd(), POLLIN, 0}};
    for (const Conversation& talk : talks_) {
      polls.push_back({talk.socket.get(), static_cast<short>(talk.greeted ? POLLIN : POLLOUT), 0});
    }
    for (const Met& met : met_) {
      const bool is_silent = Contains(silent_, MemberIndex(layout_, met.peer));
      polls.push_back(
          {met.socket.get(), static_cast<short>(is_silent ? POLLIN | POLLRDHUP : POLLRDHUP), 0});
    }
    if (poll(polls.data(), polls.size(), static_cast<int>(kRedial.count())) < 0) {
      if (errno == EINTR) return OkStatus();
      return Internal("exchange: poll: " + ErrnoText());
    }
    for (size_t i = 0; i < met_.size(); ++i) {
      const short revents = polls[1 + talks_.size() + i].revents;
      if (revents == 0) continue;
      // What it has said counts, though it may have gone since.
      if ((revents & POLLIN) == 0) return Gone(met_[i].peer);
      JANUS_RETURN_IF_ERROR(Hear(met_[i]));
    }
    std::vector<Conversation> talks;
    talks.swap(talks_);
    for (size_t i = 0; i < talks.size(); ++i) {
      Conversation& talk = talks[i];
      bool keep = true;
      if (polls[i + 1].revents != 0) {
        JANUS_ASSIGN_OR_RETURN(keep, Answered(talk));
      }
      if (keep) talks_.push_back(std::move(talk));
    }
    if (polls[0].revents != 0) {
      for (Caller& caller : door_.Take()) Called(caller);
    }
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
    Enter(talk.member, hello,
          {MemberAt(layout_, talk.member), std::move(talk.socket), std::move(talk.reader.segment),
           std::move(talk.reader.address)},
          talk.reader.device);
    return false;
  }

  // A member of this epoch has dialled us, as the door has seen.
  void Called(Caller& caller) {
    const int member = MemberIndex(layout_, SenderOf(caller.hello));
    const Hello ours = HelloTo(member);
    const Status judged =
        Judge(caller.hello, ours, layout_, OfRole(SenderOf(caller.hello).role, ours));
    if (!judged.ok()) {
      // The member that was meant may still come.
      door_.NoteRefusal(judged);
      return door_.Refuse(caller, &judged);
    }
    if (!Contains(missing_, member)) return door_.Refuse(caller, nullptr);
    if (!Greet(caller.socket.get(), member)) return;
    Enter(member, caller.hello,
          {MemberAt(layout_, member), std::move(caller.socket), std::move(caller.segment),
           std::move(caller.address)},
          caller.device);
  }

  // A member of the role whose numerics class is known.
  const Hello* OfRole(Role role, const Hello& ours) const {
    if (role == layout_.self.role) return &ours;
    return first_of_other_role_ ? &*first_of_other_role_ : nullptr;
  }

  void Enter(int member, const Hello& hello, Met met, const Fd& device) {
    if (SenderOf(hello).role != layout_.self.role && !first_of_other_role_) {
      first_of_other_role_ = hello;
    }
    const bool shares = offer_.transport(met.peer) == PairTransport::kSharedMemory;
    const bool maps = shares && offer_.map_device && offer_.map_device(met.peer, device);
    const MapsDevice says = maps ? MapsDevice::kYes : MapsDevice::kNo;
    // Whoever has gone meanwhile is found gone by the next look.
    (void)send(met.socket.get(), &says, sizeof says, MSG_NOSIGNAL | MSG_DONTWAIT);
    met_.push_back(std::move(met));
    std::erase(missing_, member);
    silent_.push_back(member);
  }

  // A peer that was met and has not said whether it maps our memory; what follows that is not ours
  // to read.
  Status Hear(Met& met) {
    char byte = 0;
    const ssize_t got = recv(met.socket.get(), &byte, 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return OkStatus();
    if (got != 1) return Gone(met.peer);
    const auto said = static_cast<MapsDevice>(byte);
    if (said != MapsDevice::kYes && said != MapsDevice::kNo) {
      return Internal("exchange: " + ToString(met.peer) +
                      " does not say whether it maps our GPU's memory");
    }
    met.maps_ours = said == MapsDevice::kYes;
    std::erase(silent_, MemberIndex(layout_, met.peer));
    return OkStatus();
  }

  const TransportLayout& layout_;
  const ConnectOptions& options_;
  const Offer& offer_;
  EpochAtDoor& door_;
  const int self_;
  std::vector<MonotonicTime> redial_at_;  // by member
  std::vector<int> missing_;              // not met
  std::vector<int> silent_;               // met, without a word on our GPU's memory
  std::vector<Conversation> talks_;
  std::vector<Met> met_;
  std::optional<Hello> first_of_other_role_;
};

}  // namespace

std::vector<PeerId> WhoMapsOurs(const std::vector<Met>& met) {
  std::vector<PeerId> who;
  for (const Met& peer : met) {
    if (peer.maps_ours) who.push_back(peer.peer);
  }
  return who;
}

Result<std::vector<Met>> MeetPeers(const TransportLayout& layout, const ConnectOptions& options,
                                   const Offer& offer, ExchangeDoor& door, std::stop_token stop) {
  JANUS_ASSIGN_OR_RETURN(const std::shared_ptr<EpochAtDoor> epoch,
                         door.Expect(options.identity, layout));
  return Meeting(layout, options, offer, *epoch).Run(stop);
}

}  // namespace janus::dataplane
