#include "dataplane/comm/transport/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "dataplane/comm/transport/device_slots.h"
#include "dataplane/comm/transport/peer_sockets.h"

namespace janus::dataplane {
namespace {

std::string ErrnoText() {
  return std::strerror(errno);
}

Result<Segment> MapSegment(int fd, size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    return ResourceExhausted("exchange memory: cannot map " + std::to_string(bytes) +
                             " bytes: " + ErrnoText());
  }
  Segment segment;
  segment.base = static_cast<std::byte*>(memory);
  segment.bytes = bytes;
  segment.keep = std::shared_ptr<void>(memory, [bytes](void* p) { munmap(p, bytes); });
  return segment;
}

}  // namespace

Result<Segment> CreateSharedSegment(const TransportLayout& layout, Fd& fd) {
  const size_t bytes = SegmentMap(layout, layout.self).bytes();
  fd = Fd(memfd_create("janus-exchange", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return ResourceExhausted("exchange memory: memfd_create: " + ErrnoText());
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return ResourceExhausted("exchange memory of " + std::to_string(bytes) +
                             " bytes: " + ErrnoText());
  }
  if (const int error = posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)); error != 0) {
    return ResourceExhausted("exchange memory of " + std::to_string(bytes) +
                             " bytes: " + std::strerror(error) +
                             "; lower maxBatchSize or give the machine more memory");
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return Internal("exchange memory: F_ADD_SEALS: " + ErrnoText());
  }
  JANUS_ASSIGN_OR_RETURN(Segment segment, MapSegment(fd.get(), bytes));
  InitSegment(segment, layout);
  return segment;
}

Result<Segment> MapPeerSegment(const Fd& fd, const TransportLayout& layout, PeerId peer) {
  struct stat info {};
  const int seals = fd ? fcntl(fd.get(), F_GET_SEALS) : -1;
  if (!fd || fstat(fd.get(), &info) != 0 || seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return InvalidArgument(ToString(peer) + " sent no sealed memory descriptor");
  }
  const size_t need = SegmentMap(layout, peer).bytes();
  if (static_cast<size_t>(info.st_size) < need) {
    return InvalidArgument("segment of " + ToString(peer) + ": " + std::to_string(info.st_size) +
                           " bytes, the topology needs " + std::to_string(need));
  }
  JANUS_ASSIGN_OR_RETURN(Segment segment, MapSegment(fd.get(), need));
  JANUS_RETURN_IF_ERROR(CheckSegment(segment, layout, peer));
  return segment;
}

Result<std::unique_ptr<Transport>> ConnectSharedMemory(const TransportLayout& layout,
                                                       const ConnectOptions& options,
                                                       ExchangeDoor& door, std::stop_token stop) {
  Fd fd;
  std::vector<std::optional<Segment>> segments(static_cast<size_t>(layout.m + layout.n));
  JANUS_ASSIGN_OR_RETURN(segments[static_cast<size_t>(MemberIndex(layout, layout.self))],
                         CreateSharedSegment(layout, fd));
  Offer offer;
  offer.segment = fd.get();
  if (options.device != nullptr) options.device->PutInto(offer);
  offer.transport = [](PeerId) { return PairTransport::kSharedMemory; };
  JANUS_ASSIGN_OR_RETURN(std::vector<Met> met,
                         MeetPeers(layout, options, offer, door, std::move(stop)));
  if (options.device != nullptr) options.device->Conclude(WhoMapsOurs(met), {});
  auto sockets = std::make_unique<PeerSockets>();
  for (Met& peer : met) {
    JANUS_ASSIGN_OR_RETURN(Segment segment, MapPeerSegment(peer.segment, layout, peer.peer));
    segment.wake_fd = peer.socket.get();
    segments[static_cast<size_t>(MemberIndex(layout, peer.peer))] = std::move(segment);
    sockets->Add(peer.peer, std::move(peer.socket));
  }
  return std::unique_ptr<Transport>(std::make_unique<SegmentTransport>(
      layout, EpochTag(options.identity.epoch_key, options.identity.epoch), std::move(segments),
      options.policy, std::move(sockets), "shared memory"));
}

}  // namespace janus::dataplane
