#include "dataplane/comm/exchange/measure_links.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "common/exchange_lanes.h"

namespace janus::dataplane {
namespace {

constexpr int kRoundTrips = 9;
constexpr int kBursts = 3;
// A reader's queue of control messages must have room for two bursts: it tells a little later what
// it has read.
constexpr int kBurstMessages = 16;
static_assert(2 * kBurstMessages < static_cast<int>(kControlQueueDepth));
// Bounds the work that a peer can cause between two looks at the time.
constexpr int kAtOnce = 64;
constexpr int kRepeats = 3;  // of each large message
constexpr size_t kFirstBulk = size_t{16} << 10;
constexpr size_t kLargestBulk = size_t{1} << 20;
constexpr size_t kGrowth = 4;
// Long beside the noise of a busy machine.
constexpr Seconds kLongBulk{0.004};

enum class Ask : uint32_t { kBurst = 1, kBulk = 2, kEnd = 3 };

// Payload of a kProbe control message: what the sender asks for. Answers have none.
struct Order {
  Ask ask = Ask::kEnd;
  uint32_t messages = 0;  // kBurst
  uint64_t bytes = 0;     // kBulk
};
static_assert(sizeof(Order) == 16);

PeerId Attention(Rank rank) {
  return {Role::kAttention, rank};
}
PeerId Experts(Rank rank) {
  return {Role::kExperts, rank};
}

Header ProbeHeader(PeerId self, uint64_t number, size_t bytes) {
  RoundKey key;
  key.step = number;
  Header header = MakeHeader(MessageKind::kProbe, key, static_cast<uint16_t>(self.rank.value), 0);
  header.bytes = bytes;
  return header;
}

size_t SlotBytesOf(const TransportLayout& layout, PeerId owner, int slot) {
  const auto found = std::ranges::find_if(
      layout.slots, [&](const SlotSpec& one) { return one.owner == owner && one.index == slot; });
  return found->bytes;
}

MonotonicTime After(MonotonicTime from, Seconds seconds) {
  return from + std::chrono::duration_cast<MonotonicClock::duration>(seconds);
}

// The attention instance of a pair.
class Asker {
 public:
  Asker(Transport& transport, const MeasuringPair& pair, const Clock& clock,
        const std::stop_token& stop)
      : transport_(transport), pair_(pair), clock_(clock), stop_(stop) {}

  // Ends the peer's part, whatever happened.
  void End(MonotonicTime deadline) { static_cast<void>(Messages({Ask::kEnd, 1, 0}, deadline)); }

  Result<LinkSamples> Measure(MonotonicTime deadline, Seconds of_pair) {
    LinkSamples out;
    JANUS_RETURN_IF_ERROR(Messages({Ask::kBurst, 1, 0}, deadline).status());
    deadline = std::min(deadline, After(clock_.Now(), of_pair));
    for (int i = 0; i < kRoundTrips; ++i) {
      JANUS_ASSIGN_OR_RETURN(const double seconds, Messages({Ask::kBurst, 1, 0}, deadline));
      out.round_trips.push_back(seconds);
    }
    out.burst_messages = kBurstMessages;
    for (int i = 0; i < kBursts; ++i) {
      JANUS_ASSIGN_OR_RETURN(const double seconds,
                             Messages({Ask::kBurst, kBurstMessages, 0}, deadline));
      out.burst_seconds = i == 0 ? seconds : std::min(out.burst_seconds, seconds);
    }
    const size_t largest =
        std::min(kLargestBulk, SlotBytesOf(transport_.layout(), Experts(pair_.expert), pair_.slot));
    for (size_t bytes = std::min(kFirstBulk, largest / kGrowth); bytes <= largest && bytes > 0;
         bytes *= kGrowth) {
      LinkSamples::Bulk bulk{static_cast<double>(bytes), 0};
      for (int i = 0; i < kRepeats; ++i) {
        const Result<double> seconds = Bulk(bytes, deadline);
        if (!seconds.ok()) {
          // Two sizes are enough.
          if (out.bulks.size() > 1) return out;
          return seconds.status();
        }
        bulk.seconds = i == 0 ? *seconds : std::min(bulk.seconds, *seconds);
      }
      out.bulks.push_back(bulk);
      if (out.bulks.size() > 1 && Seconds(bulk.seconds) > kLongBulk) break;
    }
    return out;
  }

 private:
  Status Send(const Order& order) {
    return transport_.Send(Experts(pair_.expert),
                           ProbeHeader(transport_.layout().self, ++number_, sizeof order),
                           std::as_bytes(std::span(&order, 1)));
  }

  // Seconds until all messages that the order asks for are here.
  Result<double> Messages(const Order& order, MonotonicTime deadline) {
    const MonotonicTime start = clock_.Now();
    JANUS_RETURN_IF_ERROR(Send(order));
    uint32_t here = 0;
    JANUS_RETURN_IF_ERROR(transport_.Wait(deadline, [&] {
      Header header;
      for (int taken = 0; taken < kAtOnce && here < order.messages &&
                          transport_.Receive(Experts(pair_.expert), header, payload_);
           ++taken) {
        here += header.kind == MessageKind::kProbe && header.step == number_;
      }
      return here >= order.messages || stop_.stop_requested();
    }));
    if (here < order.messages) return Cancelled("preparing was aborted");
    return Seconds(clock_.Now() - start).count();
  }

  Result<double> Bulk(size_t bytes, MonotonicTime deadline) {
    const MonotonicTime start = clock_.Now();
    JANUS_RETURN_IF_ERROR(Send({Ask::kBulk, 0, bytes}));
    bool is_here = false;
    JANUS_RETURN_IF_ERROR(transport_.Wait(deadline, [&] {
      SlotMessage message;
      for (int taken = 0; taken < kAtOnce && !is_here &&
                          transport_.Take(Experts(pair_.expert), pair_.slot, message);
           ++taken) {
        is_here = message.header.kind == MessageKind::kProbe && message.header.step == number_;
      }
      return is_here || stop_.stop_requested();
    }));
    if (!is_here) return Cancelled("preparing was aborted");
    return Seconds(clock_.Now() - start).count();
  }

  Transport& transport_;
  const MeasuringPair& pair_;
  const Clock& clock_;
  const std::stop_token& stop_;
  uint64_t number_ = 0;  // of the latest order
  std::vector<std::byte> payload_;
};

// The expert instance of a pair: answers until its peer ends.
void Answer(Transport& transport, const MeasuringPair& pair, MonotonicTime deadline,
            const Clock& clock, const std::stop_token& stop) {
  const PeerId peer = Attention(pair.attention);
  const PeerId self = transport.layout().self;
  const size_t room = SlotBytesOf(transport.layout(), self, pair.slot);
  std::vector<std::byte> payload;
  for (;;) {
    Header header;
    bool is_here = false;
    const Status waited = transport.Wait(deadline, [&] {
      is_here = is_here || transport.Receive(peer, header, payload);
      return is_here || stop.stop_requested();
    });
    // A peer that sends without end must not hold this member.
    if (!waited.ok() || !is_here || stop.stop_requested() || clock.Now() >= deadline) return;
    Order order;
    if (header.kind != MessageKind::kProbe || payload.size() != sizeof order) continue;
    std::memcpy(&order, payload.data(), sizeof order);
    if (order.ask == Ask::kBulk) {
      const size_t bytes = std::min<uint64_t>({order.bytes, room, kLargestBulk});
      if (!transport.Post(pair.slot, ProbeHeader(self, header.step, bytes)).ok()) return;
      continue;
    }
    const uint32_t messages = std::min<uint32_t>(order.messages, kBurstMessages);
    for (uint32_t i = 0; i < messages; ++i) {
      if (!transport.Send(peer, ProbeHeader(self, header.step, 0), {}).ok()) return;
    }
    if (order.ask != Ask::kBurst) break;
  }
  // The last answer must leave before this member waits for another one. Nothing is awaited.
  static_cast<void>(transport.Wait(MonotonicTime::min(), [] { return true; }));
}

}  // namespace

std::vector<MeasuringPair> MeasuringPairs(const TransportLayout& layout,
                                          std::span<const int> node_of) {
  const auto m = static_cast<size_t>(layout.m);
  const std::vector<std::vector<int>> attention = RanksOfNodes(node_of.first(m));
  const std::vector<std::vector<int>> experts = RanksOfNodes(node_of.subspan(m));
  // The slot with the lowest ranks for each pair of nodes.
  std::vector<std::optional<MeasuringPair>> of(attention.size() * experts.size());
  for (const SlotSpec& slot : layout.slots) {
    if (slot.owner.role != Role::kExperts || slot.readers.size() != 1) continue;
    const PeerId reader = slot.readers.front();
    if (reader.role != Role::kAttention) continue;
    const int a = node_of[static_cast<size_t>(reader.rank.value)];
    const int e = node_of[m + static_cast<size_t>(slot.owner.rank.value)];
    std::optional<MeasuringPair>& best =
        of[static_cast<size_t>(a) * experts.size() + static_cast<size_t>(e)];
    const MeasuringPair one{a, e, reader.rank, slot.owner.rank, slot.index};
    const auto order = [](const MeasuringPair& pair) {
      return std::tuple(pair.attention.value, pair.expert.value, pair.slot);
    };
    if (!best || order(one) < order(*best)) best = one;
  }
  std::vector<MeasuringPair> out;
  const size_t turns = std::max(attention.size(), experts.size());
  for (size_t turn = 0; turn < turns; ++turn) {
    for (size_t a = 0; a < attention.size(); ++a) {
      const size_t e = (a + turn) % turns;
      if (e >= experts.size()) continue;
      if (const auto& pair = of[a * experts.size() + e]) out.push_back(*pair);
    }
  }
  return out;
}

std::optional<MeasuredLink> FiguresOf(const LinkSamples& samples) {
  if (samples.round_trips.empty() || samples.burst_messages < 2 || samples.bulks.empty()) {
    return std::nullopt;
  }
  std::vector<double> sorted = samples.round_trips;
  std::ranges::sort(sorted);
  // Other work of the machine makes some round trips longer, and none shorter.
  const double round_trip = sorted[sorted.size() / 4];
  MeasuredLink out;
  out.latency_seconds = round_trip / 2;
  out.message_seconds =
      std::max(samples.burst_seconds - sorted.front(), 0.0) / (samples.burst_messages - 1);
  const LinkSamples::Bulk& largest = samples.bulks.back();
  double bytes = largest.bytes;
  double seconds = largest.seconds;
  if (samples.bulks.size() > 1) {
    const LinkSamples::Bulk& before = samples.bulks[samples.bulks.size() - 2];
    // A disturbed short message could make the slope as steep as it likes.
    const bool is_plausible = largest.seconds > before.seconds * 1.5;
    if (is_plausible) {
      bytes -= before.bytes;
      seconds -= before.seconds;
    }
  }
  constexpr double kLeastSeconds = 1e-9;
  out.bytes_per_second = bytes / std::max(seconds, kLeastSeconds);
  return out;
}

std::vector<MeasuredPeer> MeasureLinks(Transport& transport, std::span<const int> node_of,
                                       const MeasureOptions& options, const Clock& clock,
                                       const std::stop_token& stop) {
  const PeerId self = transport.layout().self;
  const MonotonicTime start = clock.Now();
  // An expert instance waits a little longer than the instance that asks it.
  const MonotonicTime asks_until = After(start, options.longest);
  const MonotonicTime answers_until = After(start, options.longest * 1.25);
  std::vector<MeasuredPeer> out;
  for (const MeasuringPair& pair : MeasuringPairs(transport.layout(), node_of)) {
    const bool asks = self == Attention(pair.attention);
    if (!asks && self != Experts(pair.expert)) continue;
    const PeerId peer = asks ? Experts(pair.expert) : Attention(pair.attention);
    if (!options.crosses(peer)) continue;
    if (!asks) {
      Answer(transport, pair, answers_until, clock, stop);
      continue;
    }
    MeasuredPeer& measured = out.emplace_back();
    measured.peer = peer;
    measured.link = options.known(peer);
    Asker asker(transport, pair, clock, stop);
    if (measured.link) {
      asker.End(asks_until);
      continue;
    }
    const Result<LinkSamples> samples = asker.Measure(asks_until, options.of_pair);
    if (samples.ok()) {
      measured.link = FiguresOf(*samples);
      if (!measured.link) measured.why_not = "no message was large enough";
    } else if (samples.status().code() == StatusCode::kDeadlineExceeded) {
      measured.why_not = "its answers took too long";
    } else {
      measured.why_not = samples.status().message();
    }
    asker.End(std::min(answers_until, After(clock.Now(), options.of_pair)));
  }
  return out;
}

}  // namespace janus::dataplane
