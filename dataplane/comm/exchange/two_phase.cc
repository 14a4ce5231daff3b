#include "dataplane/comm/exchange/two_phase.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "dataplane/comm/exchange/bundle.h"
#include "dataplane/comm/exchange/chosen_rows.h"
#include "dataplane/comm/exchange/direct.h"
#include "dataplane/comm/exchange/held_experts.h"
#include "dataplane/comm/exchange/node_sums.h"
#include "dataplane/comm/exchange/two_phase_layout.h"
#include "dataplane/comm/transport/device_slots.h"

namespace janus::dataplane {
namespace {

// The place of a rank among those that a lane carries.
std::optional<size_t> PlaceOf(const std::vector<int>& ranks, int rank) {
  const auto at = std::ranges::lower_bound(ranks, rank);
  if (at == ranks.end() || *at != rank) return std::nullopt;
  return static_cast<size_t>(at - ranks.begin());
}

// A lane that ends at another instance of this node, its number there, and how many end there.
struct OtherLane {
  const Lane* lane = nullptr;
  int number = 0;
  int lanes = 0;
};
OtherLane At(const std::vector<const Lane*>& there, const Lane* lane) {
  return {lane, static_cast<int>(std::ranges::find(there, lane) - there.begin()),
          static_cast<int>(there.size())};
}

// A message that was taken or posted, until it is passed on.
struct Pending {
  SlotMessage message;
  bool is_here = false;
};

// What both roles do.
class TwoPhaseTransport : public Transport, public NodeRelay {
 public:
  TwoPhaseTransport(ExchangeMode mode, const ExchangeShape& shape, std::unique_ptr<Transport> lower)
      : shape_(shape),
        lanes_(mode, shape),
        self_(lower->layout().self),
        layout_(DirectLayout(shape, self_, true)),
        lower_(std::move(lower)) {
    layout_.expert_nodes = lanes_.expert_nodes();
    const int senders = self_.role == Role::kAttention ? shape.n : shape.m;
    arrived_.resize(static_cast<size_t>(senders * shape.micro_batches));
    for (const SlotSpec& slot : lower_->layout().slots) {
      if (std::ranges::count(slot.readers, self_) > 0) read_.emplace_back(slot.owner, slot.index);
    }
  }

  const TransportLayout& layout() const override { return layout_; }
  std::span<std::byte> Payload(int slot) override { return lower_->Payload(slot); }
  Status Post(int slot, const Header& header) override {
    JANUS_RETURN_IF_ERROR(lower_->Post(slot, header));
    OnPosted(slot, {header, lower_->Payload(slot).first(header.bytes)});
    if (!waiting_) Advance();
    return error_;
  }
  bool Take(PeerId from, int slot, SlotMessage& message) override {
    if (!waiting_) Advance();
    if (from.role == self_.role) return false;
    Pending& pending = Arrived(from.rank.value, MicroBatchOf(slot));
    if (!std::exchange(pending.is_here, false)) return false;
    message = pending.message;
    return true;
  }
  bool Settle() override {
    if (std::exchange(is_open_, false)) {
      for (Pending& pending : arrived_) DropPending(pending);
      Forget();
    }
    // Each call, because a network lands a message only where the one before was taken.
    SlotMessage message;
    for (const auto& [owner, slot] : read_) stale_ += lower_->Take(owner, slot, message) ? 1 : 0;
    return lower_->Settle();
  }
  Status Send(PeerId to, const Header& header, std::span<const std::byte> payload) override {
    return lower_->Send(to, header, payload);
  }
  bool Receive(PeerId from, Header& header, std::vector<std::byte>& payload) override {
    return lower_->Receive(from, header, payload);
  }
  Status Wait(MonotonicTime deadline, FunctionRef<bool()> ready) override {
    waiting_ = true;
    Status waited = lower_->Wait(deadline, [&] {
      Advance();
      return ready() || !error_.ok();
    });
    waiting_ = false;
    return error_.ok() ? waited : error_;
  }
  void Wake() override { lower_->Wake(); }
  uint64_t dropped() const override { return dropped_ + lower_->dropped(); }
  std::span<std::byte> FlagsOf(PeerId owner) override { return lower_->FlagsOf(owner); }
  std::vector<std::span<std::byte>> PayloadMemory() override { return lower_->PayloadMemory(); }
  std::string_view Describe(PeerId peer) const override { return lower_->Describe(peer); }
  NodeRelay* relay() override { return this; }

  Traffic sent() const override { return sent_; }
  Traffic received() const override { return received_; }
  uint64_t stale() const override { return stale_; }

 protected:
  virtual void OnPosted(int slot, const SlotMessage& message) = 0;
  // Makes this member's part of the moves, as far as possible now.
  virtual void Move() = 0;
  // Drops what was not passed on.
  virtual void Forget() = 0;
  // Of a sender's slot in mode Direct.
  virtual int MicroBatchOf(int slot) const = 0;

  void Open(uint64_t step) {
    if (!std::exchange(is_open_, true)) first_step_ = step;
  }
  // Whether the message is of a step that was given up.
  bool IsOver(const SlotMessage& message) {
    const bool is_over = message.header.step < first_step_;
    stale_ += is_over ? 1 : 0;
    return is_over;
  }

  Pending& Arrived(int sender, int micro_batch) {
    return arrived_[static_cast<size_t>(sender * shape_.micro_batches + micro_batch)];
  }
  // Hands a section to this member's exchange.
  void Deliver(const SlotMessage& section, int micro_batch) {
    Arrived(section.header.sender, micro_batch) = {section, true};
  }
  // Bytes of the message's payload that are not in it, but in its sender's GPU memory.
  size_t BytesInGpu(const Header& header) const {
    const bool is_rows = header.kind == MessageKind::kRows;
    const int most = shape_.max_rows * (is_rows ? 1 : shape_.top_k);
    const size_t count = std::min(header.count, static_cast<uint32_t>(most));
    const size_t here = is_rows ? 0 : ContributionRowsOffset(count);
    return header.bytes == here ? count * shape_.row_bytes() : 0;
  }
  void Fail(Status why) {
    if (error_.ok()) error_ = std::move(why);
  }
  bool has_failed() const { return !error_.ok(); }
  void DropPending(Pending& pending) { stale_ += std::exchange(pending.is_here, false) ? 1 : 0; }
  // Whether the message of the round is here. `slot`: of `owner`; null: this member's own slot.
  // Messages of earlier rounds are dropped; one of a later round waits.
  bool IsHere(Pending& pending, std::optional<PeerId> owner, int slot, MessageKind kind,
              const RoundKey& round) {
    constexpr int kAtOnce = 8;  // bounds the work that a peer can cause
    for (int taken = 0; taken < kAtOnce; ++taken) {
      if (!pending.is_here) {
        if (!owner || !lower_->Take(*owner, slot, pending.message)) return false;
        pending.is_here = true;
      }
      const Header& header = pending.message.header;
      if (header.kind == kind && header.key() == round) return true;
      if (header.kind == kind && header.key() > round) return false;
      DropPending(pending);
    }
    return false;
  }
  void PostBundle(int slot, const BundleWriter& bundle, const RoundKey& round) {
    Fail(lower_->Post(slot, bundle.HeaderOf(round, self_)));
  }
  void CountSent(const BundleWriter& bundle, size_t readers) {
    sent_.messages += readers;
    sent_.bytes += readers * bundle.HeaderOf({}, self_).bytes;
  }
  // What this member has written into its own slot. Peers can write there too, so it is read like
  // theirs.
  SlotMessage Own(int slot, const BundleWriter& bundle, const RoundKey& round) {
    const Header header = bundle.HeaderOf(round, self_);
    return {header, lower_->Payload(slot).first(header.bytes)};
  }

  const ExchangeShape shape_;
  const Lanes lanes_;
  const PeerId self_;
  TransportLayout layout_;
  const std::unique_ptr<Transport> lower_;
  Traffic sent_;
  Traffic received_;
  uint64_t stale_ = 0;
  uint64_t dropped_ = 0;

 private:
  void Advance() {
    if (is_open_ && error_.ok()) Move();
  }

  bool is_open_ = false;
  bool waiting_ = false;
  Status error_;
  uint64_t first_step_ = 0;                   // since the last step that was given up
  std::vector<Pending> arrived_;              // [senders of the other role, micro-batch]
  std::vector<std::pair<PeerId, int>> read_;  // all slots of peers that this member reads
};

class AttentionTwoPhase final : public TwoPhaseTransport {
 public:
  AttentionTwoPhase(ExchangeMode mode, const ExchangeShape& shape, std::unique_ptr<Transport> lower)
      : TwoPhaseTransport(mode, shape, std::move(lower)),
        own_(lanes_.EndingAtAttention(self_.rank.value)),
        number_{shape.micro_batches, BundlesOf(shape, own_.size())} {
    for (const Lane* lane : lanes_.OfAttention(self_.rank.value)) {
      ++expert_nodes_;
      if (lane->attention_end == self_.rank.value) continue;
      others_.push_back(At(lanes_.EndingAtAttention(lane->attention_end), lane));
    }
    outward_.resize(static_cast<size_t>(shape.micro_batches));
    if (own_.empty()) return;
    for (const Lane* lane : own_) {
      const OtherLane at = At(lanes_.EndingAtExpert(lane->expert_end), lane);
      theirs_.push_back({{shape.micro_batches, shape.m, at.lanes}, at.number});
    }
    carried_ = own_.front()->attention.size();
    for (int mb = 0; mb < shape.micro_batches; ++mb) {
      Outward& out = outward_[static_cast<size_t>(mb)];
      for (int i = 0; i < number_.bundles; ++i) {
        out.bundles.emplace_back(lower_->Payload(number_.Bundle(i, mb)));
      }
      out.posted.resize(carried_);
      out.takes_part.resize(carried_);
      out.awaited.resize(carried_);
      out.has_returned.resize(own_.size());
    }
    steps_.resize(2 * carried_ + 1);
    for (Step& step : steps_) step.takes_part.resize(carried_);
    spread_.resize(carried_);
    size_t most = 0;  // experts at the other end of an own lane
    for (const Lane* lane : own_) most = std::max(most, lane->experts.size());
    seen_.reserve(carried_ * most);
    if (shape.gate == GateSide::kExperts) return;
    for (const Lane* lane : own_) held_.emplace_back(*shape.placement, lane->experts);
    const auto rows = static_cast<size_t>(shape.max_rows);
    places_.resize(rows);
    ids_.resize(rows * static_cast<size_t>(shape.top_k));
    weights_.resize(ids_.size());
  }

  void BeginStep(const RoundKey& first, const std::vector<bool>& senders) override {
    Open(first.step);
    if (own_.empty()) return;
    const bool any = std::ranges::any_of(own_.front()->attention,
                                         [&](int a) { return senders[static_cast<size_t>(a)]; });
    // Each instance has at most a running step and the next one. More unfinished steps are an error
    // of the coordinator, and their rounds are missed.
    if (!any || begun_ - Finished() >= steps_.size()) return;
    Step& next = steps_[begun_++ % steps_.size()];
    next.first = first;
    for (size_t place = 0; place < carried_; ++place) {
      next.takes_part[place] = senders[static_cast<size_t>(own_.front()->attention[place])];
    }
  }

 protected:
  int MicroBatchOf(int slot) const override { return slot / shape_.m; }

  void OnPosted(int slot, const SlotMessage& message) override {
    sent_.bytes += expert_nodes_ * BytesInGpu(message.header);
    if (own_.empty()) return;
    const std::optional<size_t> place = PlaceOf(own_.front()->attention, self_.rank.value);
    outward_[static_cast<size_t>(slot)].posted[*place] = {message, true};
  }

  void Move() override {
    for (int mb = 0; mb < shape_.micro_batches; ++mb) {
      if (!own_.empty()) MoveRounds(mb);
      for (const OtherLane& other : others_) TakeSpread(other, mb);
    }
  }

  void Forget() override {
    for (Outward& out : outward_) {
      for (Pending& pending : out.posted) DropPending(pending);
      out.finished = begun_;
      out.in_step = out.is_away = false;
    }
  }

 private:
  // A step in which rows of this node are to be passed on.
  struct Step {
    RoundKey first;
    std::vector<bool> takes_part;  // by place
  };
  // The rounds of one micro-batch that this end passes on.
  struct Outward {
    uint64_t finished = 0;  // steps, as begun_ counts them
    bool in_step = false;
    RoundKey round;
    std::vector<bool> takes_part;  // by place: sends in this round
    std::vector<bool> awaited;     // has not posted yet
    std::vector<BundleWriter> bundles;
    bool is_away = false;            // the bundles are posted
    std::vector<bool> has_returned;  // by own lane
    std::vector<Pending> posted;     // by place
  };

  uint64_t Finished() const {
    return std::ranges::min_element(outward_, {}, &Outward::finished)->finished;
  }

  void MoveRounds(int mb) {
    Outward& out = outward_[static_cast<size_t>(mb)];
    while (out.finished < begun_) {
      if (!out.in_step) BeginRounds(out, mb);
      if (!out.is_away && !Gather(out, mb)) return;
      if (!CollectReturns(out, mb)) return;
      out.is_away = false;
      ++out.round.layer;
      if (out.round.layer < shape_.layers && Any(out.takes_part)) {
        BeginRound(out);
      } else {
        out.in_step = false;
        ++out.finished;
      }
    }
  }

  void BeginRounds(Outward& out, int mb) {
    const Step& step = steps_[out.finished % steps_.size()];
    out.in_step = true;
    out.round = step.first;
    out.round.micro_batch = static_cast<uint8_t>(mb);
    out.takes_part = step.takes_part;
    BeginRound(out);
  }
  void BeginRound(Outward& out) {
    out.awaited = out.takes_part;
    for (BundleWriter& bundle : out.bundles) bundle.Clear();
  }

  // Adds an instance's rows to each bundle. With the gate on attention: those that the lane's node
  // needs.
  void AddRows(Outward& out, int slot, const SlotMessage& message) {
    if (held_.empty()) {
      // A slot's message fits, because each carried rank has room for one.
      dropped_ += !out.bundles.front().Add(slot, message);
      return;
    }
    const size_t row_bytes = shape_.row_bytes();
    // The instance posts all its rows; a faulty one may write anything.
    const int count = static_cast<int>(
        std::min(message.header.count, static_cast<uint32_t>(shape_.max_rows) + 1));
    if (count > shape_.max_rows ||
        RowsSent(message.payload, count, shape_.top_k, row_bytes) != count) {
      ++dropped_;
      return;
    }
    ReadChoices(message.payload, count, count, shape_.top_k, row_bytes, ids_, weights_);
    const size_t cells = static_cast<size_t>(count) * static_cast<size_t>(shape_.top_k);
    for (size_t l = 0; l < held_.size(); ++l) {
      const int sent = held_[l].Select(message.header.layer, std::span(ids_).first(cells),
                                       shape_.top_k, places_);
      const size_t bytes = ChosenRowsBytes(static_cast<size_t>(sent), cells, row_bytes);
      dropped_ += !out.bundles[l].Add(slot, message.header, bytes, [&](std::span<std::byte> into) {
        WriteSelected(message.payload, count, shape_.top_k, row_bytes, places_, sent, into);
      });
    }
  }

  // True once the round's bundles are posted.
  bool Gather(Outward& out, int mb) {
    const std::vector<int>& ranks = own_.front()->attention;
    for (size_t place = 0; place < carried_; ++place) {
      if (!out.awaited[place]) continue;
      const bool is_own = ranks[place] == self_.rank.value;
      const PeerId owner{Role::kAttention, Rank{ranks[place]}};
      Pending& pending = out.posted[place];
      const int slot = number_.Rows(mb);
      if (!IsHere(pending, is_own ? std::nullopt : std::optional(owner), slot, MessageKind::kRows,
                  out.round)) {
        continue;
      }
      AddRows(out, slot, pending.message);
      out.awaited[place] = false;
      // Without rows it takes no part in the micro-batch's later rounds.
      out.takes_part[place] = pending.message.header.count > 0;
      pending.is_here = false;
    }
    if (Any(out.awaited)) return false;
    for (size_t i = 0; i < out.bundles.size(); ++i) {
      PostBundle(number_.Bundle(static_cast<int>(i), mb), out.bundles[i], out.round);
      CountSent(out.bundles[i], own_.size() / out.bundles.size());
    }
    out.is_away = true;
    out.has_returned.assign(own_.size(), false);
    return true;
  }

  // True once the round's contributions have come back over all lanes.
  bool CollectReturns(Outward& out, int mb) {
    for (size_t l = 0; l < own_.size(); ++l) {
      if (out.has_returned[l]) continue;
      const Lane& lane = *own_[l];
      const int slot = theirs_[l].slots.Bundle(theirs_[l].number, mb);
      SlotMessage bundle;
      if (!lower_->Take({Role::kExperts, Rank{lane.expert_end}}, slot, bundle)) continue;
      if (bundle.header.key() != out.round) {
        ++stale_;
        continue;
      }
      out.has_returned[l] = Spread(lane, static_cast<int>(l), mb, bundle);
      dropped_ += !out.has_returned[l];
    }
    return std::ranges::all_of(out.has_returned, [](bool has) { return has; });
  }

  // Passes contributions on to the instances of this node. False: the bundle makes no sense.
  bool Spread(const Lane& lane, int number, int mb, const SlotMessage& bundle) {
    const auto place_of = [&](int slot, const SlotMessage& section) -> std::optional<size_t> {
      if (section.header.kind != MessageKind::kContributions || slot / shape_.m != mb ||
          !PlaceOf(lane.experts, section.header.sender)) {
        return std::nullopt;
      }
      return PlaceOf(lane.attention, slot % shape_.m);
    };
    seen_.assign(lane.attention.size() * lane.experts.size(), 0);
    const bool is_good = ReadBundle(bundle, [&](int slot, const SlotMessage& section) {
      const std::optional<size_t> place = place_of(slot, section);
      if (!place) return false;
      const size_t from = *PlaceOf(lane.experts, section.header.sender);
      return std::exchange(seen_[*place * lane.experts.size() + from], 1) == 0;
    });
    if (!is_good) return false;
    ++received_.messages;
    received_.bytes += bundle.header.bytes;
    if (!SpreadsContributions(lane)) {
      // Checked again: a faulty peer can still write there.
      return ReadBundle(bundle, [&](int slot, const SlotMessage& section) {
        if (!place_of(slot, section)) return false;
        DeliverReplies(section, mb);
        return true;
      });
    }
    for (size_t place = 0; place < lane.attention.size(); ++place) {
      const int slot = number_.Spread(lane, number, mb, static_cast<int>(place));
      spread_[place] = BundleWriter(lower_->Payload(slot));
    }
    const bool fits = ReadBundle(bundle, [&](int slot, const SlotMessage& section) {
      const std::optional<size_t> place = place_of(slot, section);
      return place && spread_[*place].Add(slot, section);
    });
    if (!fits) return false;
    for (size_t place = 0; place < lane.attention.size(); ++place) {
      if (spread_[place].sections() == 0) continue;
      const int slot = number_.Spread(lane, number, mb, static_cast<int>(place));
      PostBundle(slot, spread_[place], bundle.header.key());
      if (lane.attention[place] == self_.rank.value) {
        DeliverSpread(lane, mb, Own(slot, spread_[place], bundle.header.key()));
      }
    }
    return true;
  }

  // Takes what the end of another lane has spread for this instance.
  void TakeSpread(const OtherLane& other, int mb) {
    const Lane& lane = *other.lane;
    const std::optional<size_t> place = PlaceOf(lane.attention, self_.rank.value);
    SlotMessage bundle;
    const AttentionSlots theirs{shape_.micro_batches,
                                BundlesOf(shape_, static_cast<size_t>(other.lanes))};
    const int slot = theirs.Spread(lane, other.number, mb, static_cast<int>(*place));
    if (!lower_->Take({Role::kAttention, Rank{lane.attention_end}}, slot, bundle)) return;
    if (IsOver(bundle)) return;
    DeliverSpread(lane, mb, bundle);
  }
  void DeliverSpread(const Lane& lane, int mb, const SlotMessage& bundle) {
    dropped_ += !ReadBundle(bundle, [&](int slot, const SlotMessage& section) {
      if (section.header.kind != MessageKind::kContributions ||
          slot != mb * shape_.m + self_.rank.value ||
          !PlaceOf(lane.experts, section.header.sender)) {
        return false;
      }
      DeliverReplies(section, mb);
      return true;
    });
  }
  void DeliverReplies(const SlotMessage& section, int mb) {
    received_.bytes += BytesInGpu(section.header);
    Deliver(section, mb);
  }

  static bool Any(const std::vector<bool>& of) {
    return std::ranges::any_of(of, [](bool is) { return is; });
  }

  // An own lane's slots at its other end.
  struct Theirs {
    ExpertSlots slots;
    int number = 0;
  };

  const std::vector<const Lane*> own_;
  const AttentionSlots number_;
  std::vector<Theirs> theirs_;  // by own lane
  std::vector<OtherLane> others_;
  size_t expert_nodes_ = 0;
  size_t carried_ = 0;                // ranks that the own lanes carry
  std::vector<Step> steps_;           // a ring
  uint64_t begun_ = 0;                // steps
  std::vector<Outward> outward_;      // by micro-batch
  std::vector<BundleWriter> spread_;  // by place
  std::vector<uint8_t> seen_;         // of a bundle: [place, place in Lane::experts]
  // With the gate on attention:
  std::vector<HeldExperts> held_;  // by own lane: in its expert node
  std::vector<int32_t> places_;    // of the message that is being added, as its ids and weights
  std::vector<uint16_t> ids_;
  std::vector<float> weights_;
};

class ExpertTwoPhase final : public TwoPhaseTransport {
 public:
  ExpertTwoPhase(ExchangeMode mode, const ExchangeShape& shape, std::unique_ptr<Transport> lower,
                 DeviceSlots* device)
      : TwoPhaseTransport(mode, shape, std::move(lower)),
        device_(device),
        own_(lanes_.EndingAtExpert(self_.rank.value)),
        number_{shape.micro_batches, shape.m, static_cast<int>(own_.size())},
        node_(lanes_.OfExpert(self_.rank.value).front()->experts) {
    for (const Lane* lane : lanes_.OfExpert(self_.rank.value)) {
      if (lane->expert_end == self_.rank.value) continue;
      others_.push_back(At(lanes_.EndingAtExpert(lane->expert_end), lane));
    }
    for (const Lane* lane : own_) {
      const OtherLane at = At(lanes_.EndingAtAttention(lane->attention_end), lane);
      theirs_.push_back(
          {{shape.micro_batches, BundlesOf(shape, static_cast<size_t>(at.lanes))}, at.number});
    }
    posted_.resize(node_.size() * static_cast<size_t>(shape.micro_batches * shape.m));
    seen_.reserve(static_cast<size_t>(shape.m));
    if (shape.sums.on()) sums_.emplace(shape, node_.size());
    summed_.reserve(node_.size());
    inward_.resize(own_.size() * static_cast<size_t>(shape.micro_batches));
    for (size_t l = 0; l < own_.size(); ++l) {
      for (int mb = 0; mb < shape.micro_batches; ++mb) {
        Inward& in = InwardOf(l, mb);
        in.bundle = BundleWriter(lower_->Payload(number_.Bundle(static_cast<int>(l), mb)));
        in.is_awaited.resize(own_[l]->attention.size() * node_.size());
        in.under_way.reserve(own_[l]->attention.size());
        in.landed.reserve(own_[l]->attention.size());
      }
    }
  }

  void BeginStep(const RoundKey& first, const std::vector<bool>&) override { Open(first.step); }

 protected:
  int MicroBatchOf(int slot) const override { return slot; }

  void OnPosted(int slot, const SlotMessage& message) override {
    sent_.bytes += BytesInGpu(message.header);
    PostedBy(*PlaceOf(node_, self_.rank.value), slot) = {message, true};
  }

  void Move() override {
    for (int mb = 0; mb < shape_.micro_batches; ++mb) {
      for (size_t l = 0; l < own_.size(); ++l) {
        TakeRows(l, mb);
        GatherContributions(l, mb);
      }
      for (const OtherLane& other : others_) TakeSpread(other, mb);
    }
  }

  void Forget() override {
    for (Pending& pending : posted_) DropPending(pending);
    for (Inward& in : inward_) {
      in.round.reset();
      in.awaited = 0;
      in.landing.reset();
    }
  }

 private:
  // The newest round of a lane and micro-batch.
  struct Inward {
    std::optional<RoundKey> round;
    std::vector<bool> is_awaited;  // [place of the attention rank, place in node_]
    size_t awaited = 0;            // contributions not in the bundle yet
    BundleWriter bundle;
    // A bundle with rows that this end reads over the network for its node.
    std::optional<SlotMessage> landing;
    std::vector<PeerId> under_way;  // senders whose rows are being read
    std::vector<PeerId> landed;     // all whose rows are read for this bundle
  };

  Inward& InwardOf(size_t lane, int mb) {
    return inward_[lane * static_cast<size_t>(shape_.micro_batches) + static_cast<size_t>(mb)];
  }
  Pending& PostedBy(size_t place, int slot) {
    return posted_[place * static_cast<size_t>(shape_.micro_batches * shape_.m) +
                   static_cast<size_t>(slot)];
  }

  bool AreRows(const Lane& lane, int mb, int slot, const SlotMessage& section) const {
    return section.header.kind == MessageKind::kRows && slot == mb &&
           PlaceOf(lane.attention, section.header.sender);
  }

  // Takes a bundle of rows, and spreads it once those in GPU memory have landed.
  void TakeRows(size_t l, int mb) {
    const Lane& lane = *own_[l];
    Inward& in = InwardOf(l, mb);
    if (in.landing) return AwaitLanding(l, mb);
    // The rows of the last bundle are still being read: only a faulty peer sends another.
    if (in.awaited > 0) return;
    SlotMessage bundle;
    const int bundle_slot = theirs_[l].slots.Bundle(theirs_[l].number, mb);
    if (!lower_->Take({Role::kAttention, Rank{lane.attention_end}}, bundle_slot, bundle)) return;
    const RoundKey round = bundle.header.key();
    if (IsOver(bundle)) return;
    if (in.round && round <= *in.round) {
      ++stale_;
      return;
    }
    seen_.assign(lane.attention.size(), 0);
    size_t in_gpus = 0;
    const bool is_good = ReadBundle(bundle, [&](int slot, const SlotMessage& section) {
      in_gpus += BytesInGpu(section.header);
      return AreRows(lane, mb, slot, section) &&
             std::exchange(seen_[*PlaceOf(lane.attention, section.header.sender)], 1) == 0;
    });
    if (!is_good) {
      ++dropped_;
      return;
    }
    ++received_.messages;
    received_.bytes += bundle.header.bytes + in_gpus;
    in.round = round;
    std::fill(in.is_awaited.begin(), in.is_awaited.end(), false);
    in.awaited = 0;
    in.bundle.Clear();
    in.landing = bundle;
    in.under_way.clear();
    in.landed.clear();
    if (in_gpus > 0 && device_ != nullptr) BeginReads(in, mb);
    AwaitLanding(l, mb);
  }

  void BeginReads(Inward& in, int mb) {
    ReadBundle(*in.landing, [&](int, const SlotMessage& section) {
      const PeerId sender{Role::kAttention, Rank{section.header.sender}};
      const size_t bytes = BytesInGpu(section.header);
      // A faulty peer may have changed the sections since the check.
      if (bytes == 0 || sender.rank.value >= shape_.m || !device_->ReadsForNode(sender, mb)) {
        return true;
      }
      if (std::ranges::count(in.landed, sender) > 0) return true;
      const Status begun = device_->ReadForNode(sender, mb, bytes);
      if (!begun.ok()) {
        Fail(begun);
        return false;
      }
      in.under_way.push_back(sender);
      in.landed.push_back(sender);
      return true;
    });
  }

  void AwaitLanding(size_t l, int mb) {
    Inward& in = InwardOf(l, mb);
    std::erase_if(in.under_way, [&](PeerId sender) {
      const Result<bool> has_read = device_->HasRead(sender, mb);
      if (!has_read.ok()) Fail(has_read.status());
      return has_read.ok() && *has_read;
    });
    // The headers let their readers use what must have landed.
    if (!in.under_way.empty() || has_failed()) return;
    if (!in.landed.empty()) Fail(device_->SignalLanded(in.landed, mb, NumberOf(*in.round)));
    if (has_failed()) return;
    const SlotMessage bundle = *in.landing;
    in.landing.reset();
    SpreadRows(l, mb, bundle);
  }

  void SpreadRows(size_t l, int mb, const SlotMessage& bundle) {
    const Lane& lane = *own_[l];
    Inward& in = InwardOf(l, mb);
    const int slot = number_.Spread(static_cast<int>(l), mb);
    BundleWriter spread(SpreadsRows(lane) ? lower_->Payload(slot) : std::span<std::byte>());
    ReadBundle(bundle, [&](int of, const SlotMessage& section) {
      const std::optional<size_t> place = PlaceOf(lane.attention, section.header.sender);
      if (!place || section.header.kind != MessageKind::kRows) return false;
      if (SpreadsRows(lane) && !spread.Add(of, section)) return false;
      if (!SpreadsRows(lane)) Deliver(section, mb);
      for (size_t e = 0; e < node_.size(); ++e) {
        auto awaited = in.is_awaited[*place * node_.size() + e];
        in.awaited += !awaited;
        awaited = true;
      }
      return true;
    });
    if (!SpreadsRows(lane)) return;
    PostBundle(slot, spread, *in.round);
    DeliverSpread(lane, mb, Own(slot, spread, *in.round));
  }

  // Adds what the node's instances have posted to the bundle, and sends it once it is complete.
  void GatherContributions(size_t l, int mb) {
    const Lane& lane = *own_[l];
    Inward& in = InwardOf(l, mb);
    if (in.awaited == 0) return;
    for (size_t a = 0; a < lane.attention.size(); ++a) {
      if (sums_) {
        GatherSums(in, a, number_.Contributions(mb, lane.attention[a]));
        continue;
      }
      const int slot = number_.Contributions(mb, lane.attention[a]);
      for (size_t e = 0; e < node_.size(); ++e) {
        if (!in.is_awaited[a * node_.size() + e]) continue;
        Pending& pending = PostedBy(e, slot);
        if (!HasCome(in, e, slot)) continue;
        pending.is_here = false;
        in.is_awaited[a * node_.size() + e] = false;
        // Two instances can together claim more than there is room for only if they disagree.
        if (!in.bundle.Add(slot, pending.message)) {
          ++dropped_;
          continue;
        }
        --in.awaited;
      }
    }
    if (in.awaited > 0) return;
    PostBundle(number_.Bundle(static_cast<int>(l), mb), in.bundle, *in.round);
    CountSent(in.bundle, 1);
  }

  // Whether the contributions of an instance of the node to the round have come.
  bool HasCome(const Inward& in, size_t e, int slot) {
    const PeerId owner{Role::kExperts, Rank{node_[e]}};
    return IsHere(PostedBy(e, slot), owner == self_ ? std::nullopt : std::optional(owner), slot,
                  MessageKind::kContributions, *in.round);
  }

  // The same with sums: adds what the whole node has posted to an attention instance, once all of
  // it is here. It goes into one section. The other instances' sections are empty: each answers a
  // round.
  void GatherSums(Inward& in, size_t a, int slot) {
    const size_t first = a * node_.size();
    if (!in.is_awaited[first]) return;
    bool all = true;
    for (size_t e = 0; e < node_.size(); ++e) all = HasCome(in, e, slot) && all;
    if (!all) return;
    summed_.clear();
    for (size_t e = 0; e < node_.size(); ++e) summed_.push_back(&PostedBy(e, slot).message);
    Header header;
    bool fits = sums_->Add(summed_, in.bundle.Room(), header);
    header.sender = static_cast<uint16_t>(node_.front());
    fits = fits && in.bundle.AddWritten(slot, header);
    header.count = 0;
    header.bytes = 0;
    for (size_t e = 0; e < node_.size(); ++e) {
      PostedBy(e, slot).is_here = false;
      in.is_awaited[first + e] = false;
      if (e == 0) continue;
      header.sender = static_cast<uint16_t>(node_[e]);
      fits = fits && in.bundle.AddWritten(slot, header);
    }
    if (fits) {
      in.awaited -= node_.size();
    } else {
      ++dropped_;
    }
  }

  // Takes rows that the end of another lane has spread.
  void TakeSpread(const OtherLane& other, int mb) {
    const ExpertSlots theirs{shape_.micro_batches, shape_.m, other.lanes};
    const Lane& lane = *other.lane;
    SlotMessage bundle;
    if (!lower_->Take({Role::kExperts, Rank{lane.expert_end}}, theirs.Spread(other.number, mb),
                      bundle)) {
      return;
    }
    if (IsOver(bundle)) return;
    DeliverSpread(lane, mb, bundle);
  }
  void DeliverSpread(const Lane& lane, int mb, const SlotMessage& bundle) {
    dropped_ += !ReadBundle(bundle, [&](int slot, const SlotMessage& section) {
      if (!AreRows(lane, mb, slot, section)) return false;
      Deliver(section, mb);
      return true;
    });
  }

  // An own lane's slots at its other end.
  struct Theirs {
    AttentionSlots slots;
    int number = 0;
  };

  DeviceSlots* const device_;
  const std::vector<const Lane*> own_;
  std::vector<Theirs> theirs_;  // by own lane
  const ExpertSlots number_;
  const std::vector<int> node_;  // expert ranks of this node
  std::vector<OtherLane> others_;
  std::vector<Pending> posted_;   // [place in node_, slot of contributions]
  std::vector<Inward> inward_;    // [own lane, micro-batch]
  std::vector<uint8_t> seen_;     // of a bundle: by place of the sender
  std::optional<NodeSums> sums_;  // with the sum rule FixedPoint
  std::vector<const SlotMessage*> summed_;
};

}  // namespace

std::unique_ptr<Transport> MakeTwoPhaseTransport(ExchangeMode mode, const ExchangeShape& shape,
                                                 std::unique_ptr<Transport> lower,
                                                 DeviceSlots* device) {
  if (lower->layout().self.role == Role::kAttention) {
    return std::make_unique<AttentionTwoPhase>(mode, shape, std::move(lower));
  }
  return std::make_unique<ExpertTwoPhase>(mode, shape, std::move(lower), device);
}

}  // namespace janus::dataplane
