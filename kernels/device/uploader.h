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

// Copies data from anywhere in the host's memory to a device beside its steps: through a ring of
// pinned pieces, by the context's stream of loads. It allocates the ring once and no other pinned
// memory, because such an allocation may hold up a device that computes.
//
// Confined to one thread at a time. The context outlives it.
class Uploader {
 public:
  // On the host the ring is empty, and there is nothing to load. ResourceExhausted: there is no
  // memory for the ring.
  static Result<std::unique_ptr<Uploader>> Make(Context& context, PinnedRing ring = {});

  Context& context() const { return context_; }

  // Device memory that will have the content of `host`. Only work that follows Loaded's event may
  // read it. The call waits for the ring alone, and no longer needs `host` when it returns.
  // ResourceExhausted: the device's memory is short. A failure leaves the uploader as it was.
  Result<Buffer> Load(const void* host, size_t bytes);

  // An event after everything that was loaded so far (Context::StreamWait). Never null.
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
