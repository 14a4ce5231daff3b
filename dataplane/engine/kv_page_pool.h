#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/function_ref.h"
#include "common/log.h"
#include "common/status.h"
#include "dataplane/engine/swap_room.h"
#include "kernels/device/context.h"
#include "kernels/kernels.h"

namespace janus::dataplane {

struct KvPagePoolOptions {
  int layers = 0;
  int64_t page_bytes = 0;         // of one layer's page; what it holds is the attention's affair
  DType dtype = DType::kFloat32;  // of what it holds, for the attention
  int64_t bytes = 0;              // of device pages, all layers
  int64_t swap_bytes = 0;         // of host memory for preempted sequences, in whole pages
  kernels::Context* context = nullptr;  // whose memory the pages are; null: the host's
  Logger log{2, LogLevel::kWarning};    // told once each why sequences are not swapped out
};

// The pages of one attention instance, handed out by number; a page number means the same positions
// in every layer. Beside those that `bytes` are enough for there is one that no sequence is given.
// Host memory for preempted sequences is taken at creation, too; if that fails there is
// none, which only costs time. On the host addresses are mapped at creation, without a
// reservation: memory is taken as pages are first written, so a plan for the machine counts all of
// it.
//
// Copies between the two are queued on the stream of the steps, and the host waits for none: the
// next owner of a page writes it after the copy that reads it.
//
// Confined to the step thread.
class KvPagePool {
 public:
  // InvalidArgument: not even one page fits. ResourceExhausted: no addresses are left.
  static Result<std::unique_ptr<KvPagePool>> Create(const KvPagePoolOptions& options);
  KvPagePool(const KvPagePool&) = delete;
  KvPagePool& operator=(const KvPagePool&) = delete;

  int num_pages() const { return num_pages_; }
  // A page that no sequence owns. Rows whose results are discarded write there.
  int32_t spare_page() const { return num_pages_; }
  int free_pages() const { return static_cast<int>(free_.size()); }
  // Bytes of host memory.
  int64_t swap_used() const {
    return int64_t{swap_.given()} * options_.layers * options_.page_bytes;
  }
  static int PagesFor(int64_t positions) {
    return static_cast<int>((positions + kernels::kPageTokens - 1) / kernels::kPageTokens);
  }

  // Appends pages until `pages` holds `count`; false (and nothing changed) when too few are free.
  bool Grow(std::vector<int32_t>& pages, int count);
  // Gives back all of `pages` and empties it.
  void Release(std::vector<int32_t>& pages);

  // A preempted sequence's pages in host memory, by their numbers there. Given back by Drop.
  struct Swapped {
    std::vector<int32_t> numbers;
    int pages() const { return static_cast<int>(numbers.size()); }
  };
  // Copies the pages out and releases them; false when swap memory is short, or when the device
  // fails, which its next operation tells (nothing changed).
  bool SwapOut(std::vector<int32_t>& pages, Swapped& out);
  // Brings them back into newly taken pages; false when too few are free, or when the device fails,
  // which its next operation tells (nothing changed).
  bool SwapIn(Swapped& in, std::vector<int32_t>& pages);
  // Forgets a swapped sequence.
  void Drop(Swapped& in);

  // A layer's pages, one after the other; page_bytes() from one to the next.
  std::byte* Layer(int layer) const { return PageAt(layer, 0); }
  size_t page_bytes() const { return page_bytes_; }
  DType dtype() const { return options_.dtype; }

 private:
  explicit KvPagePool(const KvPagePoolOptions& options);
  std::byte* PageAt(int layer, int32_t page) const;
  void AllocateSwapRoom();
  // Of each layer, as one copy each, the pages that are neighbours here and in the host's memory.
  using QueueCopy = FunctionRef<Status(std::byte* page, std::byte* swapped, size_t bytes)>;
  Status CopyRuns(std::span<const int32_t> pages, std::span<const int32_t> swapped,
                  QueueCopy queue_copy) const;

  const KvPagePoolOptions options_;
  const size_t page_bytes_;  // of one layer
  int num_pages_ = 0;
  kernels::Context& context_;
  kernels::Buffer memory_;     // [layers, num_pages + 1, page_bytes]
  std::vector<int32_t> free_;  // taken from the back; lowest numbers first at the start
  SwapRoom swap_;
  bool has_told_full_ = false;
};

}  // namespace janus::dataplane
