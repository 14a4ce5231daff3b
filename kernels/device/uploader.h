#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/device/context.h"

namespace janus::kernels {

// Pieces of pinned memory, at least one.
struct PinnedRing {
  size_t piece_bytes = size_t{8} << 20;
  size_t pieces = 4;
};

// Brings what lies anywhere in the host's memory to a device beside its steps: through a ring of
// pinned pieces, by the context's stream of loads. The ring is all that it ever takes, once, since
// the taking of pinned memory may hold up a device that computes.
//
// Confined to one thread at a time. The context outlives it.
class Uploader {
 public:
  // On the host the ring is empty, and there is nothing to load. ResourceExhausted: the ring cannot
  // be had.
  static Result<std::unique_ptr<Uploader>> Make(Context& context, PinnedRing ring = {});

  Context& context() const { return context_; }

  // Memory of the device with what `host` holds now, once Loaded's event has come: until then
  // only work that follows that event reads it. Waits for the ring alone, and reads `host` no more
  // when it returns. ResourceExhausted: the device's memory is short. What fails leaves the
  // uploader as it was, for others.
  Result<Buffer> Load(const void* host, size_t bytes);

  // What stands for everything that was loaded until now (Context::StreamWait). Never null.
  Result<std::shared_ptr<Event>> Loaded();

 private:
  struct Piece {
    Buffer memory;
    std::unique_ptr<Event> read;  // the device has read what was in it when it was last full
    size_t used = 0;
  };

  explicit Uploader(Context& context) : context_(context) {}
  // The piece that is filled, with room in it.
  Result<Piece*> Open();

  Context& context_;
  std::vector<Piece> ring_;
  size_t at_ = 0;  // the piece that is filled
};

}  // namespace janus::kernels
