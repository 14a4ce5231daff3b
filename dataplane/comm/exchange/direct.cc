#include "dataplane/comm/exchange/direct.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "dataplane/comm/exchange/chosen_rows.h"
#include "dataplane/comm/exchange/held_experts.h"
#include "dataplane/comm/exchange/load_ref.h"
#include "dataplane/comm/transport/device_slots.h"

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

// When a message counts as there, by this machine's clock. A sender on another machine has another
// clock: its posting then does not lie just before `now`, and only the difference of its two times
// counts. A falsified time delays nothing for longer than a round may take.
MonotonicTime ReadyHere(const Header& header, MonotonicTime now) {
  constexpr std::chrono::seconds kLongest{10};
  const MonotonicTime posted = FromNanoseconds(header.posted_ns);
  const MonotonicTime ready = FromNanoseconds(header.ready_ns);
  if (posted <= now && posted > now - kLongest) return std::min(ready, now + kLongest);
  // Of falsified times the difference of integers would overflow.
  const Seconds ahead(
      (static_cast<double>(header.ready_ns) - static_cast<double>(header.posted_ns)) / 1e9);
  return now + std::chrono::duration_cast<MonotonicClock::duration>(
                   std::clamp<Seconds>(ahead, -kLongest, kLongest));
}

// Within an epoch the rounds of one micro-batch slot follow each other. An older key is a late
// message, of a step that was given up. A newer key means that this member has missed a round.
Status Misordered(PeerId from, const RoundKey& got, const RoundKey& want) {
  return Internal(ToString(from) + " sent " + Describe(got) + " while " + Describe(want) +
                  " was awaited");
}

// The number of sums that references in order of rows stand for: one for each row.
size_t SumsOf(std::span<const ContributionRef> refs) {
  size_t sums = 0;
  for (size_t i = 0; i < refs.size(); ++i) sums += i == 0 || refs[i].row != refs[i - 1].row;
  return sums;
}

// Whether this member's messages have their rows in its GPU memory, and whether it reads a peer's
// rows in GPU memory.
bool SendsFrom(const DeviceSlots* device) {
  return device != nullptr && device->is_read_by_all();
}
bool Reads(const DeviceSlots* device, PeerId peer) {
  return device != nullptr && (device->maps(peer) || device->reads_remotely(peer));
}

// What both sides do with their device; null: no device.
bool LetGoOf(DeviceSlots* device) {
  return device == nullptr || device->LetGo();
}
// Calls every part each time, because each makes progress only when called.
bool AbandonOf(DeviceSlots* device, Transport& transport) {
  const bool has_let_go = LetGoOf(device);
  const bool has_read = device == nullptr || device->HasReadAll();
  return transport.Settle() && has_let_go && has_read;
}
bool PostsBehind(const DeviceSlots* device) {
  return !SendsFrom(device) || device->is_read_remotely();
}

// Size of one piece of landing memory, into which a network reads peers' payloads. Attention: one
// piece per micro-batch, with all contributions to its rows. Experts: one piece per slot of the
// attention instances, numbered like those slots.
size_t LandingPiece(const ExchangeShape& shape, Role role) {
  const auto rows = static_cast<size_t>(shape.max_rows) *
                    (role == Role::kAttention ? static_cast<size_t>(shape.top_k) : 1);
  return AlignUp(rows * shape.row_bytes(), 256);
}

// With the gate on attention and without a relay, rows for an expert instance that shares no memory
// with their sender lie in a slot of its own.
int SlotApart(const ExchangeShape& shape, int micro_batch, int expert) {
  return shape.micro_batches + micro_batch * shape.n + expert;
}

// Receives the messages in the peers' slots.
class Inbox {
 public:
  explicit Inbox(Transport& transport) : transport_(transport) {}

  // Takes the slot's current message; skips messages of rounds that were given up, late ones and
  // repetitions.
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
  // Bounds the work that a peer can cause by posting without end.
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
    JANUS_CHECK(!shape.sums.on() || device == nullptr, self_.rank.value);
    const auto cells = static_cast<size_t>(shape.max_rows) * static_cast<size_t>(shape.top_k);
    rounds_.resize(static_cast<size_t>(shape.micro_batches));
    followed_.resize(static_cast<size_t>(shape.n));
    for (Round& round : rounds_) {
      round.table.assign(cells, nullptr);
      if (shape.sums.on()) round.filled.assign(cells, 0);
      round.experts.assign(cells, 0);
      if (device != nullptr) round.on_device.assign(cells, 0);
      round.arrived.assign(static_cast<size_t>(shape.n), false);
      round.placed.assign(static_cast<size_t>(shape.n), false);
      round.reading.assign(static_cast<size_t>(shape.n), false);
    }
    if (shape.gate == GateSide::kExperts) return;
    JANUS_CHECK(device == nullptr, self_);
    places_.resize(static_cast<size_t>(shape.max_rows));
    if (transport.relay() != nullptr) return;
    for (int e = 0; e < shape.n; ++e) {
      if (shape.ShareMemory(self_.rank.value, e)) continue;
      apart_.push_back({e, HeldExperts(*shape.placement, std::span(&e, 1))});
    }
  }

  std::span<std::byte> Rows(int micro_batch) override { return transport_.Payload(micro_batch); }
  GateSide gate() const override { return shape_.gate; }
  ChosenExperts Choices(int micro_batch, int rows) override {
    if (shape_.gate == GateSide::kExperts) return {};
    return WriteChoices(transport_.Payload(micro_batch), rows, shape_.top_k, shape_.row_bytes());
  }
  std::byte* DeviceRows(int micro_batch) override {
    return SendsFrom(device_) ? device_->Own(micro_batch) : nullptr;
  }

  Status Post(const RoundKey& key, int rows, MonotonicTime ready) override {
    JANUS_CHECK(rows >= 0 && rows <= shape_.max_rows, rows, shape_.max_rows);
    Round& round = rounds_[key.micro_batch];
    round.rows = rows;
    round.missing = rows * shape_.top_k;
    round.senders_left = shape_.n;
    round.ready = MonotonicTime();
    std::fill(round.arrived.begin(), round.arrived.end(), false);
    std::fill(round.placed.begin(), round.placed.end(), false);
    std::fill(round.reading.begin(), round.reading.end(), false);
    round.landed = 0;
    const auto cells = static_cast<size_t>(rows) * static_cast<size_t>(shape_.top_k);
    std::fill_n(round.table.begin(), cells, nullptr);
    if (shape_.sums.on()) std::fill_n(round.filled.begin(), cells, uint8_t{0});
    Header header = MakeHeader(MessageKind::kRows, key, static_cast<uint16_t>(self_.rank.value),
                               static_cast<uint32_t>(rows));
    if (shape_.gate == GateSide::kAttention) Choices(key.micro_batch, rows);  // also without rows
    const size_t bytes = BytesOfRows(rows, rows);
    header.bytes = SendsFrom(device_) ? 0 : bytes;
    header.ready_ns = Nanoseconds(ready);
    header.posted_ns = Nanoseconds(MonotonicClock::now());
    const auto in_place = static_cast<uint64_t>(shape_.n) - apart_.size();
    sent_.messages += static_cast<uint64_t>(shape_.n);
    sent_.bytes += bytes * in_place;
    for (const Apart& one : apart_) JANUS_RETURN_IF_ERROR(PostApart(header, one));
    if (in_place == 0) return OkStatus();
    if (SendsFrom(device_)) {
      JANUS_RETURN_IF_ERROR(device_->Signal(key.micro_batch, NumberOf(key)));
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
      round.ready = std::max(round.ready, ReadyHere(message.header, MonotonicClock::now()));
      --round.senders_left;
    }
    JANUS_ASSIGN_OR_RETURN(const bool all_read, AreRead(round, key.micro_batch));
    if (round.senders_left > 0 || !all_read) return false;
    if (round.missing != 0) {
      const auto cell = static_cast<int>(
          shape_.sums.on()
              ? std::find(round.filled.begin(), round.filled.end(), 0) - round.filled.begin()
              : std::find(round.table.begin(), round.table.end(), nullptr) - round.table.begin());
      return Internal(Describe(key) + ": no expert instance sent the contribution to row " +
                      std::to_string(cell / shape_.top_k) + " slot " +
                      std::to_string(cell % shape_.top_k) + " (" + std::to_string(round.missing) +
                      " are missing); do all expert instances agree?");
    }
    return true;
  }

  MonotonicTime Ready(int micro_batch) const override {
    return rounds_[static_cast<size_t>(micro_batch)].ready;
  }

  std::vector<Rank> Awaited(int micro_batch) const override {
    const Round& round = rounds_[static_cast<size_t>(micro_batch)];
    std::vector<Rank> awaited;
    for (int e = 0; e < shape_.n; ++e) {
      const auto at = static_cast<size_t>(e);
      if (!round.arrived[at] || round.reading[at]) awaited.push_back(Rank{e});
    }
    return awaited;
  }

  bool Abandon() override {
    for (int i = 0; i < shape_.micro_batches; ++i) {
      for (int e = 0; e < shape_.n; ++e) inbox_.Drop({Role::kExperts, Rank{e}}, SlotOf(i));
    }
    std::fill(followed_.begin(), followed_.end(), std::nullopt);
    return AbandonOf(device_, transport_);
  }
  bool LetGo() override { return LetGoOf(device_); }
  void BeginStep(const RoundKey& first, const Participants& participants) override {
    if (NodeRelay* const relay = transport_.relay()) relay->BeginStep(first, participants);
  }
  Traffic sent() const override {
    const NodeRelay* const relay = transport_.relay();
    return relay != nullptr ? relay->sent() : sent_;
  }
  Traffic received() const override {
    const NodeRelay* const relay = transport_.relay();
    return relay != nullptr ? relay->received() : received_;
  }
  bool PostsBehindGpu() const override { return PostsBehind(device_); }
  Compression compression() const override { return shape_.compression; }
  FixedPointSums sums() const override { return shape_.sums; }
  uint64_t stale() const override {
    const NodeRelay* const relay = transport_.relay();
    return inbox_.stale() + (relay != nullptr ? relay->stale() : 0);
  }

  std::span<const void* const> Contributions(int micro_batch) const override {
    const Round& round = rounds_[static_cast<size_t>(micro_batch)];
    return {round.table.data(),
            static_cast<size_t>(round.rows) * static_cast<size_t>(shape_.top_k)};
  }
  std::span<const uint16_t> Experts(int micro_batch) const override {
    const Round& round = rounds_[static_cast<size_t>(micro_batch)];
    return std::span(round.experts).first(Contributions(micro_batch).size());
  }
  std::span<const uint8_t> OnDevice(int micro_batch) const override {
    return rounds_[static_cast<size_t>(micro_batch)].on_device;
  }
  Status StreamWait(const RoundKey& key) override {
    if (device_ == nullptr) return OkStatus();
    const Round& round = rounds_[key.micro_batch];
    for (int e = 0; e < shape_.n; ++e) {
      if (round.placed[static_cast<size_t>(e)]) {
        device_->Await({Role::kExperts, Rank{e}}, SlotOf(key.micro_batch), NumberOf(key));
        followed_[static_cast<size_t>(e)] = key;
      }
    }
    return device_->StreamWaitPeers();
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
  // An expert instance that shares no memory with this one.
  struct Apart {
    int expert = 0;
    HeldExperts held;
  };

  // Payload of a message with `sent` of `rows` rows.
  size_t BytesOfRows(int sent, int rows) const {
    if (shape_.gate == GateSide::kExperts) return static_cast<size_t>(sent) * shape_.row_bytes();
    return ChosenRowsBytes(static_cast<size_t>(sent),
                           static_cast<size_t>(rows) * static_cast<size_t>(shape_.top_k),
                           shape_.row_bytes());
  }

  // `header`: of the message with all rows, which are written already.
  Status PostApart(Header header, const Apart& to) {
    const auto rows = static_cast<int>(header.count);
    const std::span<const std::byte> all = transport_.Payload(header.micro_batch);
    const ChosenExperts chosen = Choices(header.micro_batch, rows);
    const int sent = to.held.Select(header.layer, chosen.ids, shape_.top_k, places_);
    const int slot = SlotApart(shape_, header.micro_batch, to.expert);
    header.bytes = WriteSelected(all, rows, shape_.top_k, shape_.row_bytes(), places_, sent,
                                 transport_.Payload(slot));
    sent_.bytes += header.bytes;
    return transport_.Post(slot, header);
  }

  struct Round {
    int rows = 0;
    int missing = 0;       // cells of the table still null
    int senders_left = 0;  // expert instances not heard of
    MonotonicTime ready;   // of those heard of, the last
    std::vector<bool> arrived;
    std::vector<bool> placed;        // by expert instance: contributions in its GPU memory, mapped
    std::vector<bool> reading;       // by expert instance: a network is reading them to this GPU
    size_t landed = 0;               // bytes read by network so far and under way
    std::vector<const void*> table;  // [max_rows * K]
    std::vector<uint8_t> filled;     // with sums: the same cells, whether one has the contribution
    std::vector<uint16_t> experts;   // the same cells
    std::vector<uint8_t> on_device;  // the same cells; empty without a GPU
  };

  // The slot of each expert instance with contributions to this instance.
  int SlotOf(int micro_batch) const { return micro_batch * shape_.m + self_.rank.value; }

  Status EnterSums(Round& round, PeerId from, const SlotMessage& message) {
    const size_t count = message.header.count;
    const size_t most = round.filled.size();
    const size_t bytes = message.header.bytes;
    if (count > most || ContributionRowsOffset(count) > bytes) {
      return Internal(ToString(from) + ": " + std::to_string(count) + " contributions in " +
                      std::to_string(bytes) + " bytes");
    }
    ++received_.messages;
    received_.bytes += bytes;
    const auto* const refs = reinterpret_cast<const ContributionRef*>(message.payload.data());
    const std::byte* sum = message.payload.data() + ContributionRowsOffset(count);
    size_t left = (bytes - ContributionRowsOffset(count)) / shape_.reply_bytes();
    const auto differ = [&] {
      return Internal(ToString(from) + ": the sums of " + std::to_string(count) +
                      " contributions are not those in " + std::to_string(bytes) + " bytes");
    };
    if (ContributionRowsOffset(count) + left * shape_.reply_bytes() != bytes) return differ();
    int row = -1;
    for (size_t i = 0; i < count; ++i) {
      // Copied before the check: a faulty peer can still write there.
      const ContributionRef ref = LoadRef(refs + i);
      const bool is_next = ref.row != row;
      if (ref.row < row || (is_next && left == 0)) return differ();
      JANUS_ASSIGN_OR_RETURN(const size_t at, CellOf(round, from, ref));
      if (round.filled[at] != 0) return Repeated(from, ref);
      round.filled[at] = 1;
      round.experts[at] = ref.expert;
      --round.missing;
      if (!is_next) continue;
      row = ref.row;
      round.table[at] = sum;
      sum += shape_.reply_bytes();
      --left;
    }
    return left == 0 ? OkStatus() : differ();
  }

  static std::string Where(const ContributionRef& ref) {
    return " to row " + std::to_string(ref.row) + " slot " + std::to_string(ref.slot);
  }
  static Status Repeated(PeerId from, const ContributionRef& ref) {
    return Internal(ToString(from) + ": a second contribution" + Where(ref) +
                    "; do all expert instances agree?");
  }
  Result<size_t> CellOf(const Round& round, PeerId from, const ContributionRef& ref) const {
    if (ref.row >= round.rows || ref.slot >= shape_.top_k) {
      return Internal(ToString(from) + ": a contribution" + Where(ref) + " of " +
                      std::to_string(round.rows) + " rows");
    }
    return static_cast<size_t>(ref.row) * static_cast<size_t>(shape_.top_k) + ref.slot;
  }

  Status Enter(Round& round, PeerId from, const SlotMessage& message) {
    if (shape_.sums.on()) return EnterSums(round, from, message);
    const size_t count = message.header.count;
    const std::byte* placed = nullptr;  // in the sender's GPU memory
    if (count > 0 && message.header.bytes == ContributionRowsOffset(count) &&
        Reads(device_, from)) {
      const bool is_mapped = device_->maps(from);
      const size_t landing = LandingOf(message.header.micro_batch) + round.landed;
      placed = is_mapped ? device_->Of(from, SlotOf(message.header.micro_batch))
                         : device_->Landing(landing);
      (is_mapped ? round.placed : round.reading)[static_cast<size_t>(from.rank.value)] = true;
    } else if (ContributionBytes(count, shape_.row_bytes()) != message.header.bytes) {
      return Internal(ToString(from) + ": " + std::to_string(count) + " contributions in " +
                      std::to_string(message.header.bytes) + " bytes");
    }
    ++received_.messages;
    received_.bytes += ContributionBytes(count, shape_.row_bytes());
    const auto* refs = reinterpret_cast<const ContributionRef*>(message.payload.data());
    const std::byte* rows = message.payload.data() + ContributionRowsOffset(count);
    for (size_t i = 0; i < count; ++i) {
      // Copied before the check: a faulty peer can still write there.
      const ContributionRef ref = LoadRef(refs + i);
      JANUS_ASSIGN_OR_RETURN(const size_t at, CellOf(round, from, ref));
      const void*& cell = round.table[at];
      if (cell != nullptr) return Repeated(from, ref);
      cell = (placed != nullptr ? placed : rows) + i * shape_.row_bytes();
      round.experts[at] = ref.expert;
      if (!round.on_device.empty()) round.on_device[at] = placed != nullptr ? 1 : 0;
      --round.missing;
    }
    if (!round.reading[static_cast<size_t>(from.rank.value)]) return OkStatus();
    // The piece cannot overflow: each contribution filled a free cell.
    const int micro_batch = message.header.micro_batch;
    const size_t bytes = count * shape_.row_bytes();
    const size_t at = LandingOf(micro_batch) + round.landed;
    round.landed += bytes;
    return device_->Read(from, SlotOf(micro_batch), bytes, at);
  }

  // Whether all reads that were begun for the round's contributions have ended.
  Result<bool> AreRead(Round& round, int micro_batch) {
    bool all = true;
    for (int e = 0; e < shape_.n; ++e) {
      const auto at = static_cast<size_t>(e);
      if (!round.reading[at]) continue;
      JANUS_ASSIGN_OR_RETURN(const bool has_read,
                             device_->HasRead({Role::kExperts, Rank{e}}, SlotOf(micro_batch)));
      round.reading[at] = !has_read;
      all = all && has_read;
    }
    return all;
  }
  size_t LandingOf(int micro_batch) const {
    return static_cast<size_t>(micro_batch) * LandingPiece(shape_, Role::kAttention);
  }

  const ExchangeShape shape_;
  Transport& transport_;
  DeviceSlots* const device_;
  const PeerId self_;
  Inbox inbox_;
  Traffic sent_;
  Traffic received_;
  std::vector<Round> rounds_;
  std::vector<Apart> apart_;     // with the gate on attention and without a relay
  std::vector<int32_t> places_;  // of a message being written, [max_rows]
  // By expert instance: the last round for which waiting was queued, since a round was given up.
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
    JANUS_CHECK(!shape.sums.on() || device == nullptr, self_.rank.value);
    const auto slots = static_cast<size_t>(shape.micro_batches) * static_cast<size_t>(shape.m);
    counts_.assign(slots, 0);
    reading_.resize(slots);
    if (shape.gate == GateSide::kExperts) return;
    JANUS_CHECK(device == nullptr, self_);
    std::vector<int> ranks;  // that share the messages
    const auto self = static_cast<size_t>(self_.rank.value);
    for (int e = 0; e < shape.n; ++e) {
      const auto other = static_cast<size_t>(e);
      const bool is_mate =
          transport.relay() != nullptr && NodeOfExpert(shape, other) == NodeOfExpert(shape, self);
      if (other == self || is_mate) ranks.push_back(e);
    }
    held_.emplace(*shape.placement, ranks);
    const auto rows = static_cast<size_t>(shape.max_rows);
    chosen_.resize(slots);
    for (Chosen& chosen : chosen_) {
      chosen.ids.resize(rows * static_cast<size_t>(shape.top_k));
      chosen.weights.resize(chosen.ids.size());
      chosen.place_of.resize(rows);
    }
  }

  Result<bool> Poll(const RoundKey& key, Rank from, ArrivedRows& arrived) override {
    const PeerId peer{Role::kAttention, from};
    std::optional<Reading>& reading = reading_[SlotOf(key.micro_batch, from)];
    if (reading && reading->key == key) {
      JANUS_ASSIGN_OR_RETURN(const bool has_read, device_->HasRead(peer, key.micro_batch));
      if (!has_read) return false;
      arrived = reading->rows;
      reading.reset();
      return true;
    }
    SlotMessage message;
    if (!inbox_.TakeCurrent(peer, RowSlot(key.micro_batch, from), MessageKind::kRows, key,
                            message)) {
      return false;
    }
    if (message.header.key() != key) return Misordered(peer, message.header.key(), key);
    const uint32_t count = message.header.count;
    const size_t bytes = count * shape_.row_bytes();
    arrived.on_device = count > 0 && message.header.bytes == 0 && Reads(device_, peer);
    const bool has_choices = shape_.gate == GateSide::kAttention;
    if (count > static_cast<uint32_t>(shape_.max_rows) ||
        (message.header.bytes != bytes && !arrived.on_device && !has_choices)) {
      return Internal(ToString(peer) + ": " + std::to_string(count) + " rows in " +
                      std::to_string(message.header.bytes) + " bytes");
    }
    arrived.count = arrived.came = static_cast<int>(count);
    if (has_choices) JANUS_RETURN_IF_ERROR(TakeChoices(key, from, message, arrived));
    ++received_.messages;
    received_.bytes += has_choices ? message.header.bytes : bytes;
    arrived.rows = message.payload.data();
    arrived.posted = FromNanoseconds(message.header.posted_ns);
    arrived.ready = ReadyHere(message.header, MonotonicClock::now());
    if (!arrived.on_device) return true;
    if (device_->IsInPlace(peer, key.micro_batch)) {
      arrived.rows = device_->Of(peer, key.micro_batch);
      device_->Await(peer, key.micro_batch, NumberOf(key));
      return true;
    }
    const size_t landing = SlotOf(key.micro_batch, from) * LandingPiece(shape_, Role::kExperts);
    arrived.rows = device_->Landing(landing);
    reading = Reading{key, arrived};
    JANUS_RETURN_IF_ERROR(device_->Read(peer, key.micro_batch, bytes, landing));
    return false;
  }
  Status StreamWait() override {
    return device_ == nullptr ? OkStatus() : device_->StreamWaitPeers();
  }
  bool IsThere(const RoundKey& key, Rank from, const ArrivedRows& arrived) const override {
    return !arrived.on_device ||
           device_->IsThere({Role::kAttention, from}, key.micro_batch, NumberOf(key));
  }

  bool Abandon() override {
    for (int i = 0; i < shape_.micro_batches; ++i) {
      for (int a = 0; a < shape_.m; ++a) {
        inbox_.Drop({Role::kAttention, Rank{a}}, RowSlot(i, Rank{a}));
      }
    }
    return AbandonOf(device_, transport_);
  }
  bool LetGo() override { return LetGoOf(device_); }
  void BeginStep(const RoundKey& first, const Participants& participants) override {
    if (NodeRelay* const relay = transport_.relay()) relay->BeginStep(first, participants);
  }
  Traffic sent() const override {
    const NodeRelay* const relay = transport_.relay();
    return relay != nullptr ? relay->sent() : sent_;
  }
  Traffic received() const override {
    const NodeRelay* const relay = transport_.relay();
    return relay != nullptr ? relay->received() : received_;
  }
  bool PostsBehindGpu() const override { return PostsBehind(device_); }
  Compression compression() const override { return shape_.compression; }
  FixedPointSums sums() const override { return shape_.sums; }
  uint64_t stale() const override {
    const NodeRelay* const relay = transport_.relay();
    return inbox_.stale() + (relay != nullptr ? relay->stale() : 0);
  }

  std::byte* DeviceReplies(int micro_batch, Rank to) override {
    return SendsFrom(device_) ? device_->Own(static_cast<int>(SlotOf(micro_batch, to))) : nullptr;
  }

  Outgoing Begin(int micro_batch, Rank to, int count) override {
    JANUS_CHECK(count >= 0 && count <= shape_.max_rows * shape_.top_k, count);
    const auto slot = static_cast<int>(SlotOf(micro_batch, to));
    counts_[static_cast<size_t>(slot)] = count;
    std::byte* payload = transport_.Payload(slot).data();
    const auto size = static_cast<size_t>(count);
    return {RefsOf(slot, size),
            SendsFrom(device_) ? nullptr : payload + ContributionRowsOffset(size)};
  }

  Status Post(const RoundKey& key, Rank to, MonotonicTime ready) override {
    const auto slot = static_cast<int>(SlotOf(key.micro_batch, to));
    const int count = counts_[static_cast<size_t>(slot)];
    Header header =
        MakeHeader(MessageKind::kContributions, key, static_cast<uint16_t>(self_.rank.value),
                   static_cast<uint32_t>(count));
    const auto size = static_cast<size_t>(count);
    const size_t bytes = shape_.sums.on()
                             ? SummedBytes(size, SumsOf(RefsOf(slot, size)), shape_.reply_bytes())
                             : ContributionBytes(size, shape_.row_bytes());
    header.bytes = SendsFrom(device_) ? ContributionRowsOffset(size) : bytes;
    header.ready_ns = Nanoseconds(ready);
    header.posted_ns = Nanoseconds(MonotonicClock::now());
    ++sent_.messages;
    sent_.bytes += bytes;
    if (SendsFrom(device_)) JANUS_RETURN_IF_ERROR(device_->Signal(slot, NumberOf(key)));
    return transport_.Post(slot, header);
  }

 private:
  std::span<ContributionRef> RefsOf(int slot, size_t count) {
    return {reinterpret_cast<ContributionRef*>(transport_.Payload(slot).data()), count};
  }
  static int NodeOfExpert(const ExchangeShape& shape, size_t rank) {
    return shape.node_of[static_cast<size_t>(shape.m) + rank];
  }

  // The slot of an attention instance in which its rows for this instance lie.
  int RowSlot(int micro_batch, Rank from) const {
    const bool is_apart = shape_.gate == GateSide::kAttention && transport_.relay() == nullptr &&
                          !shape_.ShareMemory(from.value, self_.rank.value);
    return is_apart ? SlotApart(shape_, micro_batch, self_.rank.value) : micro_batch;
  }

  // Copies what the gate chose, and checks it and the rows that came.
  Status TakeChoices(const RoundKey& key, Rank from, const SlotMessage& message,
                     ArrivedRows& arrived) {
    const int count = arrived.count;
    const auto fail = [&](const std::string& what) {
      return Internal(ToString(PeerId{Role::kAttention, from}) + ": " + what);
    };
    arrived.came = RowsSent(message.payload, count, shape_.top_k, shape_.row_bytes());
    if (arrived.came < 0) {
      return fail(std::to_string(count) + " rows with their experts in " +
                  std::to_string(message.payload.size()) + " bytes");
    }
    Chosen& chosen = chosen_[SlotOf(key.micro_batch, from)];
    ReadChoices(message.payload, arrived.came, count, shape_.top_k, shape_.row_bytes(), chosen.ids,
                chosen.weights);
    const auto cells = static_cast<size_t>(count) * static_cast<size_t>(shape_.top_k);
    const std::span<const uint16_t> ids = std::span(chosen.ids).first(cells);
    for (const uint16_t id : ids) {
      if (id >= held_->experts()) return fail("a row chose expert " + std::to_string(id));
    }
    const std::span<int32_t> places = std::span(chosen.place_of).first(static_cast<size_t>(count));
    const int needed = held_->Select(key.layer, ids, shape_.top_k, places);
    if (arrived.came == count) {
      std::iota(places.begin(), places.end(), 0);
    } else if (arrived.came != needed) {
      return fail(std::to_string(arrived.came) + " of " + std::to_string(count) +
                  " rows came, and " + std::to_string(needed) +
                  " chose an expert that is held here; do all instances agree?");
    }
    arrived.choices = ArrivedChoices{ids, std::span(chosen.weights).first(cells), places};
    return OkStatus();
  }

  // Also numbers the pieces of landing memory for rows.
  size_t SlotOf(int micro_batch, Rank attention) const {
    return static_cast<size_t>(micro_batch) * static_cast<size_t>(shape_.m) +
           static_cast<size_t>(attention.value);
  }

  const ExchangeShape shape_;
  Transport& transport_;
  DeviceSlots* const device_;
  const PeerId self_;
  Inbox inbox_;
  Traffic sent_;
  Traffic received_;
  std::vector<int> counts_;  // [micro-batch, m]: contributions of the message being written
  struct Reading {
    RoundKey key;
    ArrivedRows rows;
  };
  std::vector<std::optional<Reading>> reading_;  // by slot: rows that a network is reading
  // With the gate on attention:
  struct Chosen {
    std::vector<uint16_t> ids;
    std::vector<float> weights;
    std::vector<int32_t> place_of;
  };
  std::optional<HeldExperts> held_;  // by those that get the same rows as this instance
  std::vector<Chosen> chosen_;       // by slot
};

}  // namespace

size_t RowLandingBytes(const ExchangeShape& shape) {
  return LandingPiece(shape, Role::kExperts);
}

TransportLayout DirectLayout(const ExchangeShape& shape, PeerId self, bool is_relayed) {
  TransportLayout layout;
  layout.self = self;
  layout.m = shape.m;
  layout.n = shape.n;
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    const int pieces = shape.micro_batches * (role == Role::kAttention ? 1 : shape.m);
    layout.landing[static_cast<size_t>(role)] =
        static_cast<size_t>(pieces) * LandingPiece(shape, role);
  }
  std::vector<PeerId> experts;
  for (int e = 0; e < shape.n; ++e) experts.push_back({Role::kExperts, Rank{e}});
  const bool has_apart = shape.gate == GateSide::kAttention && !is_relayed;
  const auto is_apart = [&](int a, int e) { return has_apart && !shape.ShareMemory(a, e); };
  for (int a = 0; a < shape.m; ++a) {
    const PeerId owner{Role::kAttention, Rank{a}};
    std::vector<PeerId> readers;
    for (const PeerId& e : experts) {
      if (!is_apart(a, e.rank.value)) readers.push_back(e);
    }
    for (int mb = 0; mb < shape.micro_batches; ++mb) {
      layout.slots.push_back({owner, mb, RowSlotBytes(shape.size()), readers});
    }
    if (!has_apart) continue;
    for (int mb = 0; mb < shape.micro_batches; ++mb) {
      for (const PeerId& e : experts) {
        const int slot = SlotApart(shape, mb, e.rank.value);
        if (is_apart(a, e.rank.value)) {
          layout.slots.push_back({owner, slot, RowSlotBytes(shape.size()), {e}});
        } else {
          layout.slots.push_back({owner, slot, 0, {}});
        }
      }
    }
  }
  const size_t bytes = ContributionSlotBytes(shape.size());
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
