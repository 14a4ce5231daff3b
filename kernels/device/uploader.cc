#include "kernels/device/uploader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/check.h"

namespace janus::kernels {
namespace {

// Copies begin at addresses that suit every copy engine.
constexpr size_t kAlignment = 256;

size_t Rounded(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Result<std::unique_ptr<Uploader>> Uploader::Make(Context& context, PinnedRing ring) {
  std::unique_ptr<Uploader> uploader(new Uploader(context));
  if (context.is_host()) return uploader;
  for (size_t i = 0; i < ring.pieces; ++i) {
    Piece piece;
    JANUS_ASSIGN_OR_RETURN(piece.memory, context.AllocatePinned(ring.piece_bytes));
    JANUS_ASSIGN_OR_RETURN(piece.read, context.MakeEvent());
    uploader->ring_.push_back(std::move(piece));
  }
  return uploader;
}

// Records an event for a full piece. Waits for the next piece, which the device may still read.
Result<Uploader::Piece*> Uploader::Open() {
  JANUS_CHECK(!ring_.empty(), "on the host there is nothing to load");
  Piece* piece = &ring_[at_];
  if (piece->used < piece->memory.size()) return piece;
  JANUS_RETURN_IF_ERROR(context_.RecordLoads(*piece->read));
  Piece& next = ring_[(at_ + 1) % ring_.size()];
  JANUS_RETURN_IF_ERROR(context_.Await(*next.read));
  at_ = (at_ + 1) % ring_.size();
  next.used = 0;
  return &next;
}

Result<Buffer> Uploader::Load(const void* host, size_t bytes) {
  JANUS_ASSIGN_OR_RETURN(Buffer buffer, context_.AllocateForLoad(bytes));
  for (size_t done = 0; done < bytes;) {
    JANUS_ASSIGN_OR_RETURN(Piece* const piece, Open());
    std::byte* const pinned = piece->memory.data() + piece->used;
    const size_t part = std::min(bytes - done, piece->memory.size() - piece->used);
    std::memcpy(pinned, static_cast<const std::byte*>(host) + done, part);
    piece->used += Rounded(part);
    JANUS_RETURN_IF_ERROR(context_.Load(buffer.data() + done, pinned, part));
    done += part;
  }
  return buffer;
}

Result<std::shared_ptr<Event>> Uploader::Loaded() {
  JANUS_ASSIGN_OR_RETURN(std::unique_ptr<Event> event, context_.MakeEvent());
  JANUS_RETURN_IF_ERROR(context_.RecordLoads(*event));
  return std::shared_ptr<Event>(std::move(event));
}

}  // namespace janus::kernels
