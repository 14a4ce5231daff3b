// A peer that has sent a right HELLO and then sends over UCX what no member would.

#include <gtest/gtest.h>

#include <cstring>
#include <future>

#include "dataplane/comm/exchange/exchange.h"
#include "dataplane/comm/transport/ucx/greeting.h"
#include "dataplane/comm/transport/ucx/tags.h"
#include "dataplane/comm/transport/ucx/transport.h"
#include "dataplane/comm/transport/ucx/ucp_worker.h"
#include "tests/support/networks.h"
#include "tests/support/temp_folder.h"
#include "tests/support/time_scale.h"

namespace janus::dataplane {
namespace {

constexpr PeerId kAttention0{Role::kAttention, Rank{0}};
constexpr PeerId kExperts0{Role::kExperts, Rank{0}};
constexpr int kExpertsMember = 1;  // of 1A1E

TransportLayout LayoutOf(PeerId self) {
  ExchangeShape shape;
  shape.hidden = 8;
  shape.top_k = 2;
  shape.max_rows = 4;
  shape.m = shape.n = 1;
  return LayoutFor(ExchangeMode::kDirect, shape, self);
}

// Connects to attention 0 like experts 0, and then sends the test's messages.
class RawPeer {
 public:
  RawPeer(const ConnectOptions& options, ExchangeListener& listener)
      : layout_(LayoutOf(kExperts0)), worker_(*ucx::UcpWorker::Create({"tcp", "lo", {}})) {
    Offer offer;
    offer.address = worker_->address();
    offer.transport = [](PeerId) { return PairTransport::kUcx; };
    met_ = *ConnectPeers(layout_, options, offer, listener, {});
    ucp_ep_params_t parameters{};
    parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    parameters.address = reinterpret_cast<const ucp_address_t*>(met_.at(0).address.data());
    JANUS_CHECK(ucp_ep_create(worker_->get(), &parameters, &endpoint_) == UCS_OK);
    for (uint64_t phase = 1; phase <= ucx::kGreetingPhases; ++phase) {
      ucx::Greeting greeting;
      greeting.tag = EpochTag(options.identity.epoch_key, options.identity.epoch);
      greeting.phase = phase;
      Send(ucx::Channel::kGreeting, BytesOf(greeting));
    }
  }
  ~RawPeer() {
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
    const ucs_status_ptr_t closing = ucp_ep_close_nbx(endpoint_, &parameters);
    if (!UCS_PTR_IS_PTR(closing)) return;
    while (ucp_request_check_status(closing) == UCS_INPROGRESS) worker_->Progress();
    ucp_request_free(closing);
  }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  template <typename T>
  static std::vector<std::byte> BytesOf(const T& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    return {bytes.begin(), bytes.end()};
  }

  void Send(ucx::Channel channel, const std::vector<std::byte>& message, int slot = 0) {
    ucx::Operation operation(*worker_);
    operation.Send(endpoint_, message, ucx::TagOf(channel, kExpertsMember, slot), nullptr);
    while (operation.pending()) worker_->Progress();
    JANUS_CHECK(operation.status() == UCS_OK);
  }
  void Progress() { worker_->Progress(); }

 private:
  const TransportLayout layout_;
  std::unique_ptr<ucx::UcpWorker> worker_;
  std::vector<ConnectedPeer> met_;
  ucp_ep_h endpoint_ = nullptr;
};

class HostileUcxPeerTest : public testing::Test {
 protected:
  HostileUcxPeerTest() {
    const std::string address = "unix:" + folder_.path() + "/attention";
    options_.addresses = {address};
    const auto listener = *ExchangeListener::Create(address);
    std::future<Result<std::unique_ptr<Transport>>> attention = std::async(std::launch::async, [&] {
      NetworkOptions network;
      network.connect = options_;
      network.devices = "lo";
      network.shares_memory = [](PeerId) { return false; };
      return ConnectNetwork(LayoutOf(kAttention0), network, *listener, {});
    });
    const auto own = *ExchangeListener::Create("unix:" + folder_.path() + "/experts");
    peer_ = std::make_unique<RawPeer>(options_, *own);
    while (attention.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
      peer_->Progress();
    }
    attention_ = *attention.get();
    tag_ = EpochTag(options_.identity.epoch_key, options_.identity.epoch);
  }

  // A valid message after `change`, with `payload` bytes behind the header.
  std::vector<std::byte> Message(MessageKind kind, size_t payload,
                                 const std::function<void(Header&)>& change = {}) const {
    Header header = MakeHeader(kind, {}, 0, 1);
    header.tag = tag_;
    header.bytes = payload;
    if (change) change(header);
    std::vector<std::byte> message = RawPeer::BytesOf(header);
    message.resize(message.size() + payload, std::byte{0x5a});
    return message;
  }

  // Waits until attention has dropped so many in all. It drops messages only while it looks for
  // others.
  bool AwaitDropped(uint64_t count, const std::function<void()>& look) {
    const Status waited =
        attention_->Wait(MonotonicClock::now() + Scaled(std::chrono::seconds(20)), [&] {
          look();
          peer_->Progress();
          return attention_->dropped() >= count;
        });
    return waited.ok() && attention_->dropped() == count;
  }

  const TempFolder folder_;
  ConnectOptions options_ = TestOptions();
  std::unique_ptr<RawPeer> peer_;
  std::unique_ptr<Transport> attention_;
  uint64_t tag_ = 0;
};

TEST_F(HostileUcxPeerTest, SlotsThatAreNotAsAgreedAreDroppedAndCounted) {
  constexpr auto kSlot = ucx::Channel::kSlot;
  const size_t slot_bytes = [&] {
    for (const SlotSpec& slot : attention_->layout().slots) {
      if (slot.owner == kExperts0 && slot.index == 0) return slot.bytes;
    }
    return size_t{0};
  }();
  ASSERT_GT(slot_bytes, 64u);
  const auto rows = [&](const std::function<void(Header&)>& change) {
    return Message(MessageKind::kContributions, 64, change);
  };
  const std::vector<std::vector<std::byte>> bad = {
      rows([](Header& h) { h.tag ^= 1; }),
      rows([](Header& h) { h.bytes = 63; }),
      rows([](Header& h) { h.bytes = 65; }),
      rows([](Header& h) { h.bytes = ~uint64_t{0}; }),
      rows([](Header& h) { h.sender = 1; }),
      std::vector<std::byte>(sizeof(Header) - 1),
      {},
      Message(MessageKind::kContributions, slot_bytes + 64),  // larger than the landing memory
  };
  uint64_t dropped = 0;
  for (const auto& message : bad) {
    peer_->Send(kSlot, message);
    ASSERT_TRUE(AwaitDropped(++dropped,
                             [&] {
                               SlotMessage taken;
                               EXPECT_FALSE(attention_->Take(kExperts0, 0, taken));
                             }))
        << "message " << dropped;
  }
  peer_->Send(kSlot, rows({}));
  SlotMessage taken;
  ASSERT_TRUE(AwaitTake(*attention_, kExperts0, 0, taken));
  EXPECT_EQ(taken.payload.size(), 64u);
}

TEST_F(HostileUcxPeerTest, ControlMessagesThatAreNotAsAgreedAreDroppedAndCounted) {
  const auto control = [&](const std::function<void(Header&)>& change) {
    return Message(MessageKind::kMiss, 16, change);
  };
  const std::vector<std::vector<std::byte>> bad = {
      control([](Header& h) { h.tag = 0; }),
      control([](Header& h) { h.bytes = 17; }),
      std::vector<std::byte>(sizeof(Header) - 1),
      {},
      Message(MessageKind::kMiss, 2 * kMaxControlBytes),
  };
  uint64_t dropped = 0;
  Header header;
  std::vector<std::byte> payload;
  for (const auto& message : bad) {
    peer_->Send(ucx::Channel::kControl, message);
    ASSERT_TRUE(AwaitDropped(
        ++dropped, [&] { EXPECT_FALSE(attention_->Receive(kExperts0, header, payload)); }))
        << "message " << dropped;
  }
  peer_->Send(ucx::Channel::kControl, control({}));
  ASSERT_TRUE(AwaitReceive(*attention_, kExperts0, header, payload));
  EXPECT_EQ(payload.size(), 16u);
}

TEST_F(HostileUcxPeerTest, CreditForWhatWasNeverSentOpensNoQueue) {
  const Header header = MakeHeader(MessageKind::kAbort, {}, 0, 1);
  for (uint64_t i = 0; i < kControlQueueDepth; ++i) {
    ASSERT_EQ(attention_->Send(kExperts0, header, {}), OkStatus());
  }
  const auto send = [&] { return attention_->Send(kExperts0, header, {}).code(); };
  ASSERT_EQ(send(), StatusCode::kResourceExhausted);
  const std::vector<std::vector<std::byte>> bad = {
      RawPeer::BytesOf(Credit{tag_ ^ 1, kControlQueueDepth}),
      RawPeer::BytesOf(Credit{tag_, kControlQueueDepth + 1}),
      RawPeer::BytesOf(Credit{tag_, ~uint64_t{0}}),
      RawPeer::BytesOf(uint64_t{1}),
      {},
  };
  uint64_t dropped = 0;
  for (const auto& message : bad) {
    peer_->Send(ucx::Channel::kCredit, message);
    ASSERT_TRUE(AwaitDropped(++dropped, [] {})) << "credit " << dropped;
    EXPECT_EQ(send(), StatusCode::kResourceExhausted) << "credit " << dropped;
  }
  peer_->Send(ucx::Channel::kCredit, RawPeer::BytesOf(Credit{tag_, 1}));
  const Status waited =
      attention_->Wait(MonotonicClock::now() + Scaled(std::chrono::seconds(20)), [&] {
        peer_->Progress();
        return send() == StatusCode::kOk;
      });
  EXPECT_TRUE(waited.ok()) << waited.ToString();
  EXPECT_EQ(send(), StatusCode::kResourceExhausted) << "there was room for one";
  peer_->Send(ucx::Channel::kCredit, RawPeer::BytesOf(Credit{tag_, 0}));
  EXPECT_TRUE(AwaitDropped(dropped + 1, [] {}));
}

}  // namespace
}  // namespace janus::dataplane
