// A peer's segment with any content: every message taken from it lies within it.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "common/aligned_buffer.h"
#include "common/check.h"
#include "dataplane/comm/exchange/exchange.h"
#include "dataplane/comm/transport/segment.h"

namespace janus::dataplane {
namespace {

class Alive final : public Liveness {
  Status Check() override { return OkStatus(); }
};

Segment Zeroed(const TransportLayout& layout, PeerId owner) {
  const size_t bytes = SegmentMap(layout, owner).bytes();
  auto memory = std::make_shared<AlignedBuffer>(bytes);
  std::memset(memory->data(), 0, bytes);
  return {memory->data(), bytes, memory};
}

void Run(std::span<const uint8_t> input, int sum_bits) {
  ExchangeShape shape;
  shape.sums.bits = sum_bits;
  shape.hidden = 8;
  shape.top_k = 2;
  shape.max_rows = 4;
  shape.m = shape.n = 1;
  const PeerId experts{Role::kExperts, Rank{0}};
  const PeerId attention{Role::kAttention, Rank{0}};
  const TransportLayout layout = LayoutFor(ExchangeMode::kDirect, shape, attention);
  const Segment own = Zeroed(layout, attention);
  const Segment peer = Zeroed(layout, experts);
  InitSegment(own, layout);
  InitSegment(peer, layout);
  JANUS_CHECK(CheckSegment(peer, layout, experts).ok());
  // The peer may write the bytes behind the stamp, as (offset, length, bytes) patches.
  while (input.size() >= 4) {
    const size_t offset = (input[0] | size_t{input[1]} << 8) % peer.bytes;
    const size_t length = std::min({size_t{input[2]} + 1, input.size() - 3, peer.bytes - offset});
    if (offset >= sizeof(SegmentHeader)) std::memcpy(peer.base + offset, &input[3], length);
    input = input.subspan(3 + length);
  }
  constexpr uint64_t kTag = 0;  // the tag of zeroed memory
  SegmentTransport transport(layout, kTag, {own, peer}, {}, std::make_unique<Alive>(), "fuzz");
  auto exchange = *MakeAttentionExchange(shape, transport);
  for (int round = 0; round < 3; ++round) {
    RoundKey key;
    key.step = static_cast<uint64_t>(round);
    JANUS_CHECK(exchange->Post(key, 4, MonotonicTime()).ok());
    Header header;
    std::vector<std::byte> payload;
    for (int i = 0; i < 70 && transport.Receive(experts, header, payload); ++i) {
      JANUS_CHECK(payload.size() <= kMaxControlBytes);
    }
    const Result<bool> all = exchange->Poll(key);
    if (!all.ok() || !*all) continue;
    uint8_t sum = 0;
    for (const void* cell : exchange->Contributions(0)) {
      if (cell == nullptr) continue;
      for (size_t b = 0; b < shape.reply_bytes(); ++b) sum ^= static_cast<const uint8_t*>(cell)[b];
    }
    volatile uint8_t seen = sum;
    (void)seen;
  }
}

}  // namespace
}  // namespace janus::dataplane

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const int sum_bits : {0, 32}) janus::dataplane::Run({data, size}, sum_bits);
  return 0;
}
