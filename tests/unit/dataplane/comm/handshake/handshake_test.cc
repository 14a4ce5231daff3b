#include "dataplane/comm/handshake/handshake.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <future>
#include <thread>

#include "dataplane/comm/exchange/exchange.h"
#include "dataplane/comm/transport/shared_memory.h"
#include "tests/support/contains.h"
#include "tests/support/networks.h"
#include "tests/support/raw_caller.h"
#include "tests/support/temp_folder.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {
namespace {

constexpr PeerId kAttention0{Role::kAttention, Rank{0}};
constexpr PeerId kExperts0{Role::kExperts, Rank{0}};

ExchangeShape Shape(int max_rows = 4) {
  ExchangeShape shape;
  shape.hidden = 8;
  shape.top_k = 2;
  shape.max_rows = max_rows;
  shape.m = shape.n = 1;
  return shape;
}

TransportLayout LayoutOf(PeerId self, int max_rows = 4) {
  return LayoutFor(ExchangeMode::kDirect, Shape(max_rows), self);
}

class HandshakeTest : public testing::Test {
 protected:
  HandshakeTest() {
    options_ = TestOptions();
    options_.addresses = {Address("attention")};
    listener_ = *ExchangeListener::Create(Address("attention"), &counts_);
  }
  std::string Address(const std::string& name) { return "unix:" + folder_.path() + "/" + name; }

  // The attention instance connects in a separate thread. Its epoch is expected from now on, so
  // that a single HELLO suffices.
  std::future<Status> Attention() { return Attention(LayoutOf(kAttention0)); }
  std::future<Status> Attention(const TransportLayout& layout) {
    auto known = *listener_->Expect(options_.identity, layout);
    return std::async(std::launch::async, [this, layout, known = std::move(known)] {
      return ConnectSharedMemory(layout, options_, *listener_, stop_.get_token()).status();
    });
  }
  Status Experts(const ConnectOptions& options, const TransportLayout& layout) {
    const auto listener = *ExchangeListener::Create(Address("experts"));
    return ConnectSharedMemory(layout, options, *listener, {}).status();
  }

  Fd Dial() { return DialExchange(Address("attention")); }
  Hello RightHello() {
    return MakeHello(options_.identity, LayoutOf(kExperts0), PairTransport::kSharedMemory, 0);
  }
  // `hello` in pieces of `piece` bytes, with a descriptor beside the first.
  static void SendRaw(const Fd& to, const Hello& hello, int segment, size_t piece = 1000) {
    const char* bytes = reinterpret_cast<const char*>(&hello);
    for (size_t at = 0; at < sizeof hello; at += piece) {
      iovec part{const_cast<char*>(bytes) + at, std::min(piece, sizeof hello - at)};
      alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      if (at == 0 && segment >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        cmsghdr* head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(head), &segment, sizeof segment);
      }
      ASSERT_EQ(sendmsg(to.get(), &message, MSG_NOSIGNAL), static_cast<ssize_t>(part.iov_len));
    }
  }
  // Sends the byte that a member sends once it has our HELLO.
  static void SayWhetherItMaps(const Fd& to, char byte = static_cast<char>(MapsDevice::kNo)) {
    ASSERT_EQ(send(to.get(), &byte, 1, MSG_NOSIGNAL), 1);
  }
  static Hello ReadHello(const Fd& from) {
    const std::optional<Hello> answer = Answer(from);
    EXPECT_TRUE(answer);
    return answer.value_or(Hello());
  }

  TempFolder folder_;
  ConnectOptions options_;
  MetricRegistry registry_;
  ExchangeRefusalCounts counts_{registry_};
  std::unique_ptr<ExchangeListener> listener_;
  std::stop_source stop_;
};

TEST_F(HandshakeTest, TellsADifferentPeerWhyAndGoesOnWaitingForTheRightOne) {
  std::future<Status> attention = Attention();
  struct Other {
    const char* field;
    void (*change)(ExchangeIdentity&);
  };
  for (const Other& other : {
           Other{"epoch 0, attention 0 has 1", [](ExchangeIdentity& i) { i.epoch = 0; }},
           Other{"another epoch key", [](ExchangeIdentity& i) { i.epoch_key[0] = std::byte{1}; }},
           Other{"model digest", [](ExchangeIdentity& i) { i.model_digest = 1; }},
           Other{"topology hash", [](ExchangeIdentity& i) { i.topology_hash = 1; }},
       }) {
    ConnectOptions options = options_;
    other.change(options.identity);
    const Status refused = Experts(options, LayoutOf(kExperts0));
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused.ToString();
    EXPECT_TRUE(Contains(refused.message(), other.field));
    EXPECT_TRUE(Contains(refused.message(), "experts 0"));
    EXPECT_TRUE(Contains(refused.message(), "attention 0"));
  }
  const Status layout = Experts(options_, LayoutOf(kExperts0, 5));
  EXPECT_TRUE(Contains(layout.message(), "slot layout"));
  EXPECT_EQ(Experts(options_, LayoutOf(kExperts0)), OkStatus());
  EXPECT_EQ(attention.get(), OkStatus());
}

// The listener may still know an epoch that was given up.
TEST_F(HandshakeTest, WhoComesFromANewerEpochIsNotRefusedButDialsUntilItIsThere) {
  std::future<Status> attention = Attention();
  Hello newer = RightHello();
  newer.epoch = 2;
  const Fd early = Dial();
  SendRaw(early, newer, -1);
  char answer = 0;
  EXPECT_EQ(recv(early.get(), &answer, 1, MSG_WAITALL), 0) << "closed without a word";
  ConnectOptions next = options_;
  next.identity.epoch = 2;
  std::future<Status> experts =
      std::async(std::launch::async, [&] { return Experts(next, LayoutOf(kExperts0)); });
  stop_.request_stop();
  EXPECT_EQ(attention.get().code(), StatusCode::kCancelled);
  stop_ = std::stop_source();
  options_.identity.epoch = 2;
  EXPECT_EQ(Attention().get(), OkStatus());
  EXPECT_EQ(experts.get(), OkStatus());
}

// Expert instances do not connect to each other: attention finds out.
TEST_F(HandshakeTest, TellsAnExpertThatComputesUnlikeTheOthersOfItsRole) {
  ExchangeShape shape = Shape();
  shape.n = 2;
  const auto layout = [&](PeerId self) { return LayoutFor(ExchangeMode::kDirect, shape, self); };
  std::future<Status> attention = Attention(layout(kAttention0));
  ConnectOptions others = options_;
  others.identity.numerics = "avx9";  // of the experts; attention computes as 'test'
  const auto first_listener = *ExchangeListener::Create(Address("experts0"));
  const auto first = ConnectSharedMemory(layout(kExperts0), others, *first_listener, {});
  ASSERT_EQ(first.status(), OkStatus());
  const PeerId second{Role::kExperts, Rank{1}};
  const Status refused = Experts(options_, layout(second));
  EXPECT_EQ(refused, FailedPrecondition("exchange: experts 1 has numerics class 'test', experts 0 "
                                        "has 'avx9'"));
  EXPECT_EQ(Experts(others, layout(second)), OkStatus());
  EXPECT_EQ(attention.get(), OkStatus());
}

TEST_F(HandshakeTest, TellsAttentionThatComputesUnlikeTheOthersOfItsRole) {
  ExchangeShape shape = Shape();
  shape.m = 2;
  const auto layout = [&](PeerId self) { return LayoutFor(ExchangeMode::kDirect, shape, self); };
  options_.addresses.push_back(Address("attention1"));
  std::future<Status> attention = Attention(layout(kAttention0));
  ConnectOptions other = options_;
  other.identity.numerics = "avx9";
  const auto listener = *ExchangeListener::Create(Address("attention1"));
  const PeerId second{Role::kAttention, Rank{1}};
  EXPECT_EQ(ConnectSharedMemory(layout(second), other, *listener, {}).status(),
            FailedPrecondition("exchange: attention 1 has numerics class 'avx9', attention 0 has "
                               "'test'"));
  stop_.request_stop();
  EXPECT_EQ(attention.get().code(), StatusCode::kCancelled);
}

TEST_F(HandshakeTest, RefusesAnotherVersionByNumber) {
  std::future<Status> attention = Attention();
  const Fd peer = Dial();
  Hello hello = RightHello();
  hello.protocol_version = 99;
  SendRaw(peer, hello, -1);
  EXPECT_EQ(RefusalText(ReadHello(peer)),
            "exchange: experts 0 has protocol version 99, attention 0 has " +
                std::to_string(kProtocolVersion));
  stop_.request_stop();
  EXPECT_EQ(attention.get().code(), StatusCode::kCancelled);
}

// A different process may listen at a peer's address, so the dialling side judges the answer too.
TEST_F(HandshakeTest, WhoDialsJudgesTheAnswerToo) {
  listener_.reset();
  const auto listener = *ListeningSocket::Create(Address("attention"));
  struct Answer {
    const char* field;
    void (*change)(Hello&);
  };
  for (const Answer& answer : {
           Answer{"protocol version", [](Hello& h) { h.protocol_version = 99; }},
           Answer{"epoch 5", [](Hello& h) { h.epoch = 5; }},
           Answer{"another epoch key", [](Hello& h) { h.key_check ^= 1; }},
           Answer{"model digest", [](Hello& h) { h.model_digest = 1; }},
           Answer{"sum rule", [](Hello& h) { h.sum_rule = 1; }},
           Answer{"compression", [](Hello& h) { h.compression = 1; }},
           Answer{"topology hash", [](Hello& h) { h.topology_hash = 1; }},
           Answer{"slot layout", [](Hello& h) { h.layout_hash = 1; }},
           Answer{"transport UCX", [](Hello& h) { h.transport = PairTransport::kUcx; }},
           Answer{"is not in the topology", [](Hello& h) { h.rank = 7; }},
       }) {
    std::future<Status> experts =
        std::async(std::launch::async, [&] { return Experts(options_, LayoutOf(kExperts0)); });
    pollfd polled{listener->fd(), POLLIN, 0};
    ASSERT_EQ(poll(&polled, 1, ScaledForPoll(std::chrono::seconds(10))), 1);
    const Fd dialler(accept(listener->fd(), nullptr, nullptr));
    EXPECT_EQ(RefusalText(ReadHello(dialler)), "");
    Hello hello =
        MakeHello(options_.identity, LayoutOf(kAttention0), PairTransport::kSharedMemory, 0);
    answer.change(hello);
    SendRaw(dialler, hello, -1);
    const Status refused = experts.get();
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused.ToString();
    EXPECT_TRUE(Contains(refused.message(), answer.field));
  }
}

TEST_F(HandshakeTest, ReadsAHelloThatComesByteForByte) {
  std::future<Status> attention = Attention();
  Fd segment;
  ASSERT_TRUE(CreateSharedSegment(LayoutOf(kExperts0), segment).ok());
  const Fd peer = Dial();
  SendRaw(peer, RightHello(), segment.get(), 1);
  EXPECT_EQ(RefusalText(ReadHello(peer)), "");
  SayWhetherItMaps(peer);
  EXPECT_EQ(attention.get(), OkStatus());
}

TEST_F(HandshakeTest, IsOverOnceEachHasSaidWhetherItMapsTheOthersMemory) {
  Fd segment;
  ASSERT_TRUE(CreateSharedSegment(LayoutOf(kExperts0), segment).ok());
  {
    options_.deadline = MonotonicClock::now() + Scaled(std::chrono::milliseconds(1000));
    std::future<Status> attention = Attention();
    const Fd silent = Dial();
    SendRaw(silent, RightHello(), segment.get());
    EXPECT_EQ(RefusalText(ReadHello(silent)), "");
    char said = 0;
    EXPECT_EQ(recv(silent.get(), &said, 1, 0), 1);
    EXPECT_EQ(said, static_cast<char>(MapsDevice::kNo));
    EXPECT_TRUE(Contains(attention.get().message(), "experts 0 did not connect in time"));
  }
  options_.deadline = MonotonicClock::now() + Scaled(std::chrono::seconds(20));
  std::future<Status> attention = Attention();
  const Fd stranger = Dial();
  SendRaw(stranger, RightHello(), segment.get());
  EXPECT_EQ(RefusalText(ReadHello(stranger)), "");
  SayWhetherItMaps(stranger, '?');
  EXPECT_EQ(attention.get(),
            Internal("exchange: experts 0 does not say whether it maps our GPU's memory"));
}

TEST_F(HandshakeTest, IsNotHeldUpByGarbageSilenceOrSomebodyWhoLeaves) {
  std::future<Status> attention = Attention();
  const Fd silent = Dial();
  const Fd half = Dial();
  ASSERT_EQ(send(half.get(), &Hello::kMagic, 8, 0), 8);
  for (int i = 0; i < 3; ++i) Dial();  // gone at once
  const Fd garbage = Dial();
  ASSERT_GT(send(garbage.get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 0);
  char byte;
  EXPECT_EQ(recv(garbage.get(), &byte, 1, 0), 0) << "closed";
  const Fd boaster = Dial();
  Hello hello = RightHello();
  hello.address_bytes = Hello::kMostAddressBytes + 1;
  SendRaw(boaster, hello, -1);
  EXPECT_EQ(recv(boaster.get(), &byte, 1, 0), 0) << "it would have sent too much";
  EXPECT_EQ(Experts(options_, LayoutOf(kExperts0)), OkStatus());
  EXPECT_EQ(attention.get(), OkStatus());
}

TEST_F(HandshakeTest, HearsTheRightPeerBehindMoreStrangersThanTheListenerHolds) {
  constexpr int kStrangers = 300;
  std::vector<Fd> strangers;
  std::future<Status> attention = Attention();
  for (int i = 0; i < kStrangers; ++i) strangers.push_back(Dial());
  EXPECT_EQ(Experts(options_, LayoutOf(kExperts0)), OkStatus());
  EXPECT_EQ(attention.get(), OkStatus());
  EXPECT_GE(counts_.of(ExchangeRefusal::kOverflow), kStrangers - PendingConnections::kMaxPending);
}

TEST_F(HandshakeTest, HearsTheRightPeerWhileStrangersKeepComing) {
  std::future<Status> attention = Attention();
  std::atomic<int> came = 0;
  std::jthread flood([&](const std::stop_token& stop) {
    std::deque<Fd> strangers;  // each sends a part of a right HELLO
    for (; !stop.stop_requested(); ++came) {
      strangers.push_back(Dial());
      Say(strangers.back(), BytesOf(RightHello()).substr(0, 100));
      if (strangers.size() > 2 * PendingConnections::kMaxPending) strangers.pop_front();
    }
  });
  // Wait for strangers that the listener had to close, not only for dialled ones.
  while (came < 2 * static_cast<int>(PendingConnections::kMaxPending) ||
         counts_.of(ExchangeRefusal::kOverflow) == 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(Experts(options_, LayoutOf(kExperts0)), OkStatus());
  EXPECT_EQ(attention.get(), OkStatus());
  EXPECT_GT(counts_.of(ExchangeRefusal::kOverflow), 0u);
}

TEST_F(HandshakeTest, RefusesAndCountsWhoDiffersInMoreThanTheListenerChecks) {
  std::future<Status> attention = Attention();
  ConnectOptions other = options_;
  other.identity.model_digest = 1;
  EXPECT_EQ(Experts(other, LayoutOf(kExperts0)).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(counts_.of(ExchangeRefusal::kMember), 1u);
  EXPECT_EQ(Experts(options_, LayoutOf(kExperts0)), OkStatus());
  EXPECT_EQ(attention.get(), OkStatus());
}

TEST_F(HandshakeTest, APeerThatCameBeforeItsHandshakeIsMet) {
  const auto known = *listener_->Expect(options_.identity, LayoutOf(kAttention0));
  std::future<Status> experts =
      std::async(std::launch::async, [&] { return Experts(options_, LayoutOf(kExperts0)); });
  pollfd waiting{known->fd(), POLLIN, 0};
  ASSERT_EQ(poll(&waiting, 1, ScaledForPoll(std::chrono::seconds(20))), 1);
  EXPECT_EQ(Attention().get(), OkStatus());
  EXPECT_EQ(experts.get(), OkStatus());
}

TEST_F(HandshakeTest, RefusesMemoryThatItsOwnerCouldTakeAway) {
  for (const bool is_memfd : {true, false}) {
    std::future<Status> attention = Attention();
    const Fd unsealed(is_memfd ? memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)
                               : open("/dev/null", O_RDWR | O_CLOEXEC));
    const Fd peer = Dial();
    SendRaw(peer, RightHello(), unsealed.get());
    SayWhetherItMaps(peer);
    const Status refused = attention.get();
    EXPECT_EQ(refused, InvalidArgument("experts 0 sent no sealed memory descriptor"));
  }
  std::future<Status> attention = Attention();
  const Fd peer = Dial();
  SendRaw(peer, RightHello(), -1);
  SayWhetherItMaps(peer);
  EXPECT_EQ(attention.get(), InvalidArgument("experts 0 sent no sealed memory descriptor"));
}

TEST_F(HandshakeTest, RefusesASegmentThatIsTooSmall) {
  for (const size_t bytes : {0u, 4096u}) {
    std::future<Status> attention = Attention();
    const Fd small(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(small.get(), static_cast<off_t>(bytes)), 0);
    ASSERT_EQ(fcntl(small.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    const Fd peer = Dial();
    SendRaw(peer, RightHello(), small.get());
    SayWhetherItMaps(peer);
    const Status refused = attention.get();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(Contains(refused.message(), "segment of experts 0: " + std::to_string(bytes) +
                                                " bytes, the topology needs "));
  }
}

TEST_F(HandshakeTest, RefusesASegmentOfAnotherLayout) {
  std::future<Status> attention = Attention();
  Fd segment;
  ASSERT_TRUE(CreateSharedSegment(LayoutOf(kExperts0, 100), segment).ok());
  const Fd peer = Dial();
  SendRaw(peer, RightHello(), segment.get());
  SayWhetherItMaps(peer);
  EXPECT_TRUE(Contains(attention.get().message(), "laid out for another topology"));
}

TEST_F(HandshakeTest, NamesWhoIsLateAndWhoWasRefused) {
  options_.deadline = MonotonicClock::now() + Scaled(std::chrono::milliseconds(1000));
  options_.identity.epoch = 8;
  std::future<Status> attention = Attention();
  ConnectOptions other = TestOptions();
  other.addresses = options_.addresses;
  other.identity.epoch = 7;
  EXPECT_EQ(Experts(other, LayoutOf(kExperts0)).code(), StatusCode::kFailedPrecondition);
  const Status late = attention.get();
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(Contains(late.message(), "experts 0 did not connect in time"));
  EXPECT_TRUE(Contains(late.message(), "refused: exchange: experts 0 has epoch 7"));
}

TEST_F(HandshakeTest, EndsWhenItIsStoppedOrToldTo) {
  std::future<Status> attention = Attention();
  stop_.request_stop();
  EXPECT_EQ(attention.get(), Cancelled("connecting was aborted"));
  stop_ = std::stop_source();
  int asked = 0;
  options_.keep_waiting = [&] { return ++asked < 3; };
  EXPECT_EQ(Attention().get(), Cancelled("connecting was aborted"));
}

TEST_F(HandshakeTest, NamesAPeerThatDiesWhileOthersAreAwaited) {
  ExchangeShape shape = Shape();
  shape.n = 2;
  const TransportLayout layout = LayoutFor(ExchangeMode::kDirect, shape, kAttention0);
  std::future<Status> attention = Attention(layout);
  {
    TransportLayout own = layout;
    own.self = kExperts0;
    const auto listener = *ExchangeListener::Create(Address("experts"));
    ASSERT_TRUE(ConnectSharedMemory(own, options_, *listener, {}).ok());
  }
  const Status gone = attention.get();
  EXPECT_EQ(gone.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Contains(gone.message(), "experts 0 is gone"));
}

TEST_F(HandshakeTest, NamesAnAddressAtWhichAnotherMemberAnswers) {
  ExchangeShape shape = Shape();
  shape.m = 2;
  ConnectOptions options = options_;
  // The topology has the same address for both attention instances.
  options.addresses = {Address("attention"), Address("attention")};
  TransportLayout layout = LayoutFor(ExchangeMode::kDirect, shape, kExperts0);
  TransportLayout attention_layout = layout;
  attention_layout.self = kAttention0;
  std::future<Status> attention = std::async(std::launch::async, [&] {
    return ConnectSharedMemory(attention_layout, options, *listener_, stop_.get_token()).status();
  });
  const auto listener = *ExchangeListener::Create(Address("experts"));
  ConnectOptions own = options;
  own.deadline = MonotonicClock::now() + Scaled(std::chrono::milliseconds(1000));
  const Status status = ConnectSharedMemory(layout, own, *listener, {}).status();
  stop_.request_stop();
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(Contains(status.message(), "attention 1"));
  EXPECT_FALSE(attention.get().ok());
}

TEST_F(HandshakeTest, PeersThatShareMemoryMeetAtTheUnixSocket) {
  ASSERT_EQ(listener_->Listen("tcp:127.0.0.1:0," + Address("both")), OkStatus());
  options_.addresses = {listener_->address()};
  std::future<Status> attention = Attention();
  EXPECT_EQ(Experts(options_, LayoutOf(kExperts0)), OkStatus());
  EXPECT_EQ(attention.get(), OkStatus());
}

TEST_F(HandshakeTest, APeerThatSharesMemoryIsRefusedOverTcpAndTheRightOneIsAwaited) {
  ASSERT_EQ(listener_->Listen("tcp:127.0.0.1:0," + Address("both")), OkStatus());
  options_.addresses = {listener_->address()};
  std::future<Status> attention = Attention();
  ConnectOptions other = options_;
  other.addresses = {ParseExchangeAddresses(listener_->address())->network};
  EXPECT_EQ(Experts(other, LayoutOf(kExperts0)),
            FailedPrecondition("exchange: experts 0 shares memory with attention 0 but came over "
                               "TCP; it needs the address of a Unix socket too"));
  EXPECT_EQ(Experts(options_, LayoutOf(kExperts0)), OkStatus());
  EXPECT_EQ(attention.get(), OkStatus());
}

// Of its GPU memory a member offers its slots to the other role, and landing memory to its own.
TEST(Offers, AreOfSlotsToTheOtherRoleAndOfLandingMemoryToTheOwn) {
  ExchangeShape shape = Shape();
  shape.n = 2;
  shape.node_of = {0, 0, 0};
  const TransportLayout layout = LayoutFor(ExchangeMode::kTwoPhaseSingle, shape, PeerId{});
  const TempFolder folder;
  ConnectOptions options = TestOptions();
  std::vector<std::unique_ptr<ExchangeListener>> listeners;
  for (int member = 0; member < 3; ++member) {
    options.addresses.push_back("unix:" + folder.path() + "/" + std::to_string(member));
    listeners.push_back(*ExchangeListener::Create(options.addresses.back()));
  }
  const auto size_of = [](const Fd& fd) {
    return fd ? static_cast<int>(lseek(fd.get(), 0, SEEK_END)) : -1;
  };
  // [member][peer]: the size of the memory that the member was offered. Slots of member i have i +
  // 1 bytes, its landing memory has 10 more.
  int offered[3][3] = {};
  using Connected = Result<std::vector<ConnectedPeer>>;  // kept until all are
  std::vector<std::future<Connected>> connecting;
  for (int member = 0; member < 3; ++member) {
    connecting.push_back(std::async(std::launch::async, [&, member]() -> Connected {
      TransportLayout own = layout;
      own.self = MemberAt(layout, member);
      const Fd segment(memfd_create("segment", MFD_CLOEXEC));
      const Fd slots(memfd_create("slots", MFD_CLOEXEC));
      const Fd landing(memfd_create("landing", MFD_CLOEXEC));
      if (ftruncate(slots.get(), member + 1) != 0 || ftruncate(landing.get(), member + 11) != 0) {
        return Internal("memory");
      }
      Offer offer;
      offer.segment = segment.get();
      offer.device = slots.get();
      offer.landing = landing.get();
      offer.transport = [](PeerId) { return PairTransport::kSharedMemory; };
      offer.map_device = [&](PeerId peer, const Fd& fd) {
        offered[member][MemberIndex(layout, peer)] = size_of(fd);
        return true;
      };
      return ConnectPeers(own, options, offer, *listeners[static_cast<size_t>(member)], {});
    }));
  }
  std::vector<Connected> connected;
  for (std::future<Connected>& one : connecting) connected.push_back(one.get());
  for (const Connected& one : connected) EXPECT_TRUE(one.ok()) << one.status().ToString();
  EXPECT_EQ(offered[0][1], 2);
  EXPECT_EQ(offered[0][2], 3);
  EXPECT_EQ(offered[1][0], 1);
  EXPECT_EQ(offered[1][2], 13);
  EXPECT_EQ(offered[2][1], 12);
}

TEST(ListeningSocket, NamesAnAddressThatIsNone) {
  for (const char* address : {"", "/tmp/x", "unix:", "tcp:", "tcp:127.0.0.1", "tcp:host:1",
                              "tcp:127.0.0.1:70000", "tcp:127.0.0.1:1x", "tcp:[::1:80"}) {
    const Status status = ListeningSocket::Create(address).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << address;
    EXPECT_TRUE(Contains(status.message(), "exchange address"));
  }
  EXPECT_EQ(ListeningSocket::Create("unix:/" + std::string(200, 'x')).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(ListeningSocket::Create("unix:/nonexistent/x").status().code(),
            StatusCode::kUnavailable);
}

TEST(ListeningSocket, TellsThePortThatItWasGivenAndTakesItsFileAway) {
  const auto tcp = *ListeningSocket::Create("tcp:127.0.0.1:0");
  EXPECT_NE(tcp->address(), "tcp:127.0.0.1:0");
  EXPECT_TRUE(tcp->address().starts_with("tcp:127.0.0.1:"));
  const TempFolder folder;
  const std::string path = folder.path() + "/x";
  { const auto local = *ListeningSocket::Create("unix:" + path); }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace janus::dataplane
