#include "dataplane/comm/transport/loopback.h"

#include <cstdlib>
#include <cstring>

namespace janus::dataplane {

LoopbackNetwork::LoopbackNetwork(const TransportLayout& layout) : layout_(layout) {
  for (int member = 0; member < layout_.m + layout_.n; ++member) {
    layout_.self = MemberAt(layout_, member);
    Segment segment;
    segment.bytes = SegmentMap(layout_, layout_.self).bytes();
    std::shared_ptr<void> memory(std::aligned_alloc(4096, segment.bytes), std::free);
    JANUS_CHECK(memory != nullptr, "out of memory for a segment of", segment.bytes);
    segment.base = static_cast<std::byte*>(memory.get());
    segment.keep = std::move(memory);
    InitSegment(segment, layout_);
    segments_.push_back(std::move(segment));
  }
}

std::unique_ptr<Transport> LoopbackNetwork::Connect(PeerId self, WaitPolicy policy) {
  TransportLayout layout = layout_;
  layout.self = self;
  std::vector<std::optional<Segment>> segments(segments_.begin(), segments_.end());
  constexpr uint64_t kTag = 1;
  return std::make_unique<SegmentTransport>(std::move(layout), kTag, std::move(segments), policy,
                                            nullptr, "loopback");
}

}  // namespace janus::dataplane
