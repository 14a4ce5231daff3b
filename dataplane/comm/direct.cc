#include "dataplane/comm/direct.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "dataplane/comm/device_slots.h"

namespace janus::dataplane {
namespace {

std::string Describe(const RoundKey& key) {
  return "epoch " + std::to_string(key.epoch) + " step " + std::to_string(key.step) + " layer " +
         std::to_string(key.layer) + " micro-batch " + std::to_string(key.micro_batch);
}

int64_t Nanoseconds(MonotonicTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

MonotonicTime FromNanoseconds(int64_t ns) {
  return MonotonicTime(
      std::chrono::duration_cast<MonotonicClock::duration>(std::chrono::nanoseconds(ns)));
}

// Within an epoch rounds of one micro-batch slot follow each other, so an older key is a late
// message (of a step that was given up) and a newer one means that this member has missed a round.
Status Misordered(PeerId from, const RoundKey& got, const RoundKey& want) {
  return Internal(ToString(from) + " sent " + Describe(got) + " while " + Describe(want) +
                  " was awaited");
}

// One read of memory that another process may be writing; the compiler must not read it again.
ContributionRef Load(const ContributionRef* at) {
  static_assert(sizeof(ContributionRef) == sizeof(uint32_t));
  return std::bit_cast<ContributionRef>(
      __atomic_load_n(reinterpret_cast<const uint32_t*>(at), __ATOMIC_RELAXED));
}

// Whether a member's own messages have their rows in its GPU's memory, and whether it reads a
// peer's there.
bool SendsFrom(const DeviceSlots* device) {
  return device != nullptr && device->is_read_by_all();
}
bool Reads(const DeviceSlots* device, PeerId peer) {
  return device != nullptr && device->maps(peer);
}

// Rounds of an epoch in their order, as flags count them; 0 is none. Micro-batches have slots of
// their own.
uint64_t NumberOf(const RoundKey& key) {
  static_assert(sizeof key.layer == 2);
  return (key.step << 16) + key.layer + 1;
}

// What comes into the slots of the peers.
class Inbox {
 public:
  explicit Inbox(Transport& transport) : transport_(transport) {}

  // Takes what a slot has, passing over messages of rounds that were given up, late or twice.
  bool TakeCurrent(PeerId from, int slot, MessageKind kind, const RoundKey& key,
                   SlotMessage& message) {
    for (int taken = 0; taken < kAtOnce && transport_.Take(from, slot, message); ++taken) {
      if (message.header.kind == kind && message.header.key() >= key) return true;
      ++stale_;
    }
    return false;
  }
  void Drop(PeerId from, int slot) {
    SlotMessage message;
    for (int taken = 0; taken < kAtOnce && transport_.Take(from, slot, message); ++taken) ++stale_;
  }
  uint64_t stale() const { return stale_; }

 private:
  // A peer that posts without end must not keep us here.
  static constexpr int kAtOnce = 8;

  Transport& transport_;
  uint64_t stale_ = 0;
};

class DirectAttention final : public AttentionExchange {
 public:
  DirectAttention(const ExchangeShape& shape, Transport& transport, DeviceSlots* device)
      : shape_(shape),
        transport_(transport),
        device_(device),
        self_(transport.layout().self),
        inbox_(transport) {
    const auto cells = static_cast<size_t>(shape.max_rows) * static_cast<size_t>(shape.top_k);
    rounds_.resize(static_cast<size_t>(shape.micro_batches));
    followed_.resize(static_cast<size_t>(shape.n));
    for (Round& round : rounds_) {
      round.table.assign(cells, nullptr);
      if (device != nullptr) round.on_device.assign(cells, 0);
      round.arrived.assign(static_cast<size_t>(shape.n), false);
      round.placed.assign(static_cast<size_t>(shape.n), false);
    }
  }

  std::span<std::byte> Rows(int micro_batch) override { return transport_.Payload(micro_batch); }
  std::byte* DeviceRows(int micro_batch) override {
    return SendsFrom(device_) ? device_->Own(micro_batch) : nullptr;
  }

  Status Post(const RoundKey& key, int rows, MonotonicTime inputs_ready) override {
    JANUS_CHECK(rows >= 0 && rows <= shape_.max_rows, rows, shape_.max_rows);
    Round& round = rounds_[key.micro_batch];
    round.rows = rows;
    round.missing = rows * shape_.top_k;
    round.senders_left = shape_.n;
    std::fill(round.arrived.begin(), round.arrived.end(), false);
    std::fill(round.placed.begin(), round.placed.end(), false);
    std::fill_n(round.table.begin(), static_cast<size_t>(rows) * static_cast<size_t>(shape_.top_k),
                nullptr);
    Header header = MakeHeader(MessageKind::kRows, key, static_cast<uint16_t>(self_.rank.value),
                               static_cast<uint32_t>(rows));
    const size_t bytes = static_cast<size_t>(rows) * shape_.row_bytes();
    header.bytes = SendsFrom(device_) ? 0 : bytes;
    header.ready_ns = Nanoseconds(inputs_ready);
    header.posted_ns = Nanoseconds(MonotonicClock::now());
    bytes_sent_ += bytes * static_cast<uint64_t>(shape_.n);
    if (SendsFrom(device_)) {
      JANUS_RETURN_IF_ERROR(device_->Raise(key.micro_batch, NumberOf(key)));
    }
    return transport_.Post(key.micro_batch, header);
  }

  Result<bool> Poll(const RoundKey& key) override {
    Round& round = rounds_[key.micro_batch];
    for (int e = 0; e < shape_.n && round.senders_left > 0; ++e) {
      if (round.arrived[static_cast<size_t>(e)]) continue;
      const PeerId from{Role::kExperts, Rank{e}};
      SlotMessage message;
      if (!inbox_.TakeCurrent(from, SlotOf(key.micro_batch), MessageKind::kContributions, key,
                              message)) {
        continue;
      }
      if (message.header.key() != key) return Misordered(from, message.header.key(), key);
      JANUS_RETURN_IF_ERROR(Enter(round, from, message));
      round.arrived[static_cast<size_t>(e)] = true;
      --round.senders_left;
    }
    if (round.senders_left > 0) return false;
    if (round.missing != 0) {
      const auto cell = static_cast<int>(
          std::find(round.table.begin(), round.table.end(), nullptr) - round.table.begin());
      return Internal(Describe(key) + ": no expert instance sent the contribution to row " +
                      std::to_string(cell / shape_.top_k) + " slot " +
                      std::to_string(cell % shape_.top_k) + " (" + std::to_string(round.missing) +
                      " are missing); do all expert instances agree?");
    }
    return true;
  }

  std::vector<Rank> Awaited(int micro_batch) const override {
    const Round& round = rounds_[static_cast<size_t>(micro_batch)];
    std::vector<Rank> awaited;
    for (int e = 0; e < shape_.n; ++e) {
      if (!round.arrived[static_cast<size_t>(e)]) awaited.push_back(Rank{e});
    }
    return awaited;
  }

  bool Abandon() override {
    for (int i = 0; i < shape_.micro_batches; ++i) {
      for (int e = 0; e < shape_.n; ++e) inbox_.Drop({Role::kExperts, Rank{e}}, SlotOf(i));
    }
    std::fill(followed_.begin(), followed_.end(), std::nullopt);
    const bool has_let_go = LetGo();
    return transport_.Settle() && has_let_go;
  }
  bool LetGo() override { return device_ == nullptr || device_->LetGo(); }
  uint64_t stale() const override { return inbox_.stale(); }

  std::span<const void* const> Contributions(int micro_batch) const override {
    const Round& round = rounds_[static_cast<size_t>(micro_batch)];
    return {round.table.data(),
            static_cast<size_t>(round.rows) * static_cast<size_t>(shape_.top_k)};
  }
  std::span<const uint8_t> OnDevice(int micro_batch) const override {
    return rounds_[static_cast<size_t>(micro_batch)].on_device;
  }
  Status Follow(const RoundKey& key) override {
    if (device_ == nullptr) return OkStatus();
    const Round& round = rounds_[key.micro_batch];
    for (int e = 0; e < shape_.n; ++e) {
      if (round.placed[static_cast<size_t>(e)]) {
        device_->Await({Role::kExperts, Rank{e}}, SlotOf(key.micro_batch), NumberOf(key));
        followed_[static_cast<size_t>(e)] = key;
      }
    }
    return device_->FollowPeers();
  }
  std::vector<LateExpert> Behind() const override {
    std::vector<LateExpert> behind;
    for (size_t e = 0; e < followed_.size(); ++e) {
      if (!followed_[e]) continue;
      const Rank rank{static_cast<int32_t>(e)};
      const RoundKey& round = *followed_[e];
      const int slot = SlotOf(round.micro_batch);
      if (!device_->IsThere({Role::kExperts, rank}, slot, NumberOf(round))) {
        behind.push_back({rank, round});
      }
    }
    return behind;
  }

 private:
  struct Round {
    int rows = 0;
    int missing = 0;       // cells of the table still null
    int senders_left = 0;  // expert instances not heard of
    std::vector<bool> arrived;
    std::vector<bool> placed;        // by expert instance: its contributions lie on its device
    std::vector<const void*> table;  // [max_rows * K]
    std::vector<uint8_t> on_device;  // likewise; empty without a GPU
  };

  // Of every expert instance's slots the one with contributions to this instance.
  int SlotOf(int micro_batch) const { return micro_batch * shape_.m + self_.rank.value; }

  Status Enter(Round& round, PeerId from, const SlotMessage& message) {
    const size_t count = message.header.count;
    const std::byte* placed = nullptr;  // in the sender's GPU, by row and slot
    if (count > 0 && message.header.bytes == ContributionRowsOffset(count) &&
        Reads(device_, from)) {
      placed = device_->Of(from, SlotOf(message.header.micro_batch));
      round.placed[static_cast<size_t>(from.rank.value)] = true;
    } else if (ContributionBytes(count, shape_.row_bytes()) != message.header.bytes) {
      return Internal(ToString(from) + ": " + std::to_string(count) + " contributions in " +
                      std::to_string(message.header.bytes) + " bytes");
    }
    bytes_received_ += ContributionBytes(count, shape_.row_bytes());
    const auto* refs = reinterpret_cast<const ContributionRef*>(message.payload.data());
    const std::byte* rows = message.payload.data() + ContributionRowsOffset(count);
    for (size_t i = 0; i < count; ++i) {
      // Copied before it is checked: a peer that lies can still write there.
      const ContributionRef ref = Load(refs + i);
      const auto where = [&] {
        return " to row " + std::to_string(ref.row) + " slot " + std::to_string(ref.slot);
      };
      if (ref.row >= round.rows || ref.slot >= shape_.top_k) {
        return Internal(ToString(from) + ": a contribution" + where() + " of " +
                        std::to_string(round.rows) + " rows");
      }
      const size_t at = static_cast<size_t>(ref.row) * static_cast<size_t>(shape_.top_k) + ref.slot;
      const void*& cell = round.table[at];
      if (cell != nullptr) {
        return Internal(ToString(from) + ": a second contribution" + where() +
                        "; do all expert instances agree?");
      }
      cell = placed != nullptr ? placed + at * shape_.row_bytes() : rows + i * shape_.row_bytes();
      if (!round.on_device.empty()) round.on_device[at] = placed != nullptr ? 1 : 0;
      --round.missing;
    }
    return OkStatus();
  }

  const ExchangeShape shape_;
  Transport& transport_;
  DeviceSlots* const device_;
  const PeerId self_;
  Inbox inbox_;
  std::vector<Round> rounds_;
  // By expert instance: the last round that was followed, since one was given up.
  std::vector<std::optional<RoundKey>> followed_;
};

class DirectExperts final : public ExpertExchange {
 public:
  DirectExperts(const ExchangeShape& shape, Transport& transport, DeviceSlots* device)
      : shape_(shape),
        transport_(transport),
        device_(device),
        self_(transport.layout().self),
        inbox_(transport) {
    counts_.assign(static_cast<size_t>(shape.micro_batches) * static_cast<size_t>(shape.m), 0);
  }

  Result<bool> Poll(const RoundKey& key, Rank from, ArrivedRows& arrived) override {
    const PeerId peer{Role::kAttention, from};
    SlotMessage message;
    if (!inbox_.TakeCurrent(peer, key.micro_batch, MessageKind::kRows, key, message)) {
      return false;
    }
    if (message.header.key() != key) return Misordered(peer, message.header.key(), key);
    const uint32_t count = message.header.count;
    const size_t bytes = count * shape_.row_bytes();
    arrived.on_device = count > 0 && message.header.bytes == 0 && Reads(device_, peer);
    if (count > static_cast<uint32_t>(shape_.max_rows) ||
        (message.header.bytes != bytes && !arrived.on_device)) {
      return Internal(ToString(peer) + ": " + std::to_string(count) + " rows in " +
                      std::to_string(message.header.bytes) + " bytes");
    }
    bytes_received_ += bytes;
    arrived.count = static_cast<int>(count);
    arrived.rows = arrived.on_device ? device_->Of(peer, key.micro_batch) : message.payload.data();
    arrived.posted = FromNanoseconds(message.header.posted_ns);
    if (arrived.on_device) device_->Await(peer, key.micro_batch, NumberOf(key));
    return true;
  }
  Status Follow() override { return device_ == nullptr ? OkStatus() : device_->FollowPeers(); }
  bool IsThere(const RoundKey& key, Rank from, const ArrivedRows& arrived) const override {
    return !arrived.on_device ||
           device_->IsThere({Role::kAttention, from}, key.micro_batch, NumberOf(key));
  }

  bool Abandon() override {
    for (int i = 0; i < shape_.micro_batches; ++i) {
      for (int a = 0; a < shape_.m; ++a) inbox_.Drop({Role::kAttention, Rank{a}}, i);
    }
    const bool has_let_go = LetGo();
    return transport_.Settle() && has_let_go;
  }
  bool LetGo() override { return device_ == nullptr || device_->LetGo(); }
  uint64_t stale() const override { return inbox_.stale(); }

  std::byte* DeviceReplies(int micro_batch, Rank to) override {
    return SendsFrom(device_) ? device_->Own(micro_batch * shape_.m + to.value) : nullptr;
  }

  Outgoing Begin(int micro_batch, Rank to, int count) override {
    JANUS_CHECK(count >= 0 && count <= shape_.max_rows * shape_.top_k, count);
    const int slot = micro_batch * shape_.m + to.value;
    counts_[static_cast<size_t>(slot)] = count;
    std::byte* payload = transport_.Payload(slot).data();
    const auto size = static_cast<size_t>(count);
    return {{reinterpret_cast<ContributionRef*>(payload), size},
            SendsFrom(device_) ? nullptr : payload + ContributionRowsOffset(size)};
  }

  Status Post(const RoundKey& key, Rank to, MonotonicTime inputs_ready) override {
    const int slot = key.micro_batch * shape_.m + to.value;
    const int count = counts_[static_cast<size_t>(slot)];
    Header header =
        MakeHeader(MessageKind::kContributions, key, static_cast<uint16_t>(self_.rank.value),
                   static_cast<uint32_t>(count));
    const auto size = static_cast<size_t>(count);
    const size_t bytes = ContributionBytes(size, shape_.row_bytes());
    header.bytes = SendsFrom(device_) ? ContributionRowsOffset(size) : bytes;
    header.ready_ns = Nanoseconds(inputs_ready);
    header.posted_ns = Nanoseconds(MonotonicClock::now());
    bytes_sent_ += bytes;
    if (SendsFrom(device_)) JANUS_RETURN_IF_ERROR(device_->Raise(slot, NumberOf(key)));
    return transport_.Post(slot, header);
  }

 private:
  const ExchangeShape shape_;
  Transport& transport_;
  DeviceSlots* const device_;
  const PeerId self_;
  Inbox inbox_;
  std::vector<int> counts_;  // [micro-batch, m]: contributions of the message being written
};

}  // namespace

TransportLayout DirectLayout(const ExchangeShape& shape, PeerId self) {
  TransportLayout layout;
  layout.self = self;
  layout.m = shape.m;
  layout.n = shape.n;
  const auto rows = static_cast<size_t>(shape.max_rows);
  std::vector<PeerId> experts;
  for (int e = 0; e < shape.n; ++e) experts.push_back({Role::kExperts, Rank{e}});
  for (int a = 0; a < shape.m; ++a) {
    for (int mb = 0; mb < shape.micro_batches; ++mb) {
      layout.slots.push_back({{Role::kAttention, Rank{a}}, mb, rows * shape.row_bytes(), experts});
    }
  }
  const size_t bytes =
      ContributionBytes(rows * static_cast<size_t>(shape.top_k), shape.row_bytes());
  for (int e = 0; e < shape.n; ++e) {
    for (int mb = 0; mb < shape.micro_batches; ++mb) {
      for (int a = 0; a < shape.m; ++a) {
        layout.slots.push_back(
            {{Role::kExperts, Rank{e}}, mb * shape.m + a, bytes, {{Role::kAttention, Rank{a}}}});
      }
    }
  }
  return layout;
}

std::unique_ptr<AttentionExchange> MakeDirectAttention(const ExchangeShape& shape,
                                                       Transport& transport, DeviceSlots* device) {
  return std::make_unique<DirectAttention>(shape, transport, device);
}

std::unique_ptr<ExpertExchange> MakeDirectExperts(const ExchangeShape& shape, Transport& transport,
                                                  DeviceSlots* device) {
  return std::make_unique<DirectExperts>(shape, transport, device);
}

}  // namespace janus::dataplane
