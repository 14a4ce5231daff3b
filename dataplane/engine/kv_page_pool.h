#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/function_ref.h"
#include "common/log.h"
#include "common/status.h"
#include "dataplane/engine/page_queue.h"
#include "dataplane/engine/prefix_index.h"
#include "dataplane/engine/swap_room.h"
#include "kernels/device/context.h"
#include "kernels/kernels.h"

namespace janus::dataplane {

struct KvPagePoolOptions {
  int layers = 0;
  int64_t page_bytes = 0;               // of one layer's page; only the attention knows the content
  DType dtype = DType::kFloat32;        // of the elements, for the attention
  int64_t bytes = 0;                    // of device pages, all layers
  int64_t swap_bytes = 0;               // of host memory for preempted sequences, in whole pages
  int64_t prefix_host_bytes = 0;        // of host memory for published pages, in whole pages
  int prefix_copies = 0;                // of such pages in a step, at most; 0: as many as fit
  kernels::Context* context = nullptr;  // the pages lie in its memory; null: the host
  Logger log{2, LogLevel::kWarning};    // why sequences are not swapped out, each reason once
};

// The pages of one attention instance, identified by numbers. A page number means the same
// positions in every layer. There is one page more than `bytes` pay for, the spare page. Host
// memory for preempted sequences is allocated at creation. If that fails the pool works without it,
// which only costs time. On the host, creation only maps addresses, without a reservation: memory
// is used as pages are first written. So a plan for the machine must count all of it.
//
// A full page may be published: then sequences with the same prefix use it together, and read it
// only. When no sequence uses a published page any more, it keeps its content until the page is
// needed. Such pages are overwritten in the order in which they came out of use. Before that, host
// memory for published pages gets their content, and a sequence with that prefix gets it back. When
// it is full, the content that came first is replaced. A step makes at most prefix_copies of these
// copies. What is not copied is computed again. If a step had no copy left for a sequence, the next
// one keeps half of its copies for such sequences, so none of them waits for ever.
//
// Copies between the two are queued on the stream of the steps, and the host does not wait for
// them. The next owner of a page writes it only after the copy that reads it.
//
// Confined to the step thread.
class KvPagePool {
 public:
  // InvalidArgument: not even one page fits. ResourceExhausted: no addresses are left.
  static Result<std::unique_ptr<KvPagePool>> Create(const KvPagePoolOptions& options);
  KvPagePool(const KvPagePool&) = delete;
  KvPagePool& operator=(const KvPagePool&) = delete;

  int num_pages() const { return num_pages_; }
  // A page that no sequence owns. Rows with discarded results write there.
  int32_t spare_page() const { return num_pages_; }
  // Pages that no sequence uses, with content or without.
  int free_pages() const { return static_cast<int>(free_.size()) + kept_.size(); }
  // Of these, published pages that keep their content.
  int kept_pages() const { return kept_.size(); }
  // Most pages that all sequences together may use, a shared one counted for each. A device has a
  // list of so many; the host reads the sequences' own lists, and has no limit.
  int64_t most_uses() const {
    return context_.is_host() ? INT64_MAX : int64_t{kUsesPerPage} * num_pages_;
  }
  // Whether there is host memory for published pages.
  bool has_prefix_room() const { return host_.pages() > 0; }
  // Bytes of host memory that hold published pages.
  int64_t prefix_host_used() const {
    return int64_t{saved_.size()} * options_.layers * options_.page_bytes;
  }
  // Positions of published pages that were copied there so far.
  uint64_t saved_positions() const { return saves_ * kernels::kPageTokens; }
  // Positions that sequences need no page of their own for, because they share one.
  int64_t shared_positions() const { return shares_ * kernels::kPageTokens; }
  // Bytes of host memory in use.
  int64_t swap_used() const {
    return int64_t{swap_.given()} * options_.layers * options_.page_bytes;
  }
  static int PagesFor(int64_t positions) {
    return static_cast<int>((positions + kernels::kPageTokens - 1) / kernels::kPageTokens);
  }

  // Appends pages until `pages` holds `count`; false (and nothing changed) when too few are free,
  // or when all sequences together would use more than most_uses().
  bool Grow(std::vector<int32_t>& pages, int count);
  // Gives back all of `pages` and empties it. The last ones are overwritten first.
  void Release(std::vector<int32_t>& pages);
  void Release(int32_t page);

  // What holds the prefix `before` with `tokens` behind it: a published page, or only host memory.
  std::optional<PrefixIndex::Entry> Find(PrefixId before, PrefixIndex::PageTokens tokens) const {
    return prefixes_.Find(before, tokens);
  }
  // One more sequence uses a published page.
  void Share(int32_t page);
  // `page`, which one sequence uses, is full: it holds the prefix `before` with `tokens` behind it.
  // If another page holds this prefix already, `page` is released and becomes that page.
  PrefixId Publish(PrefixId before, PrefixIndex::PageTokens tokens, int32_t& page);
  // A sequence with these prefixes, each of which is longer than the one before, will be admitted:
  // of host memory's pages, theirs are replaced last.
  void Await(std::span<const PrefixIndex::Entry> prefixes);
  // Copies the prefix `before` with `tokens` behind it from host memory, which alone holds it, into
  // `page`, which one sequence uses, and publishes that page. False (and nothing changed): this
  // step has made all its copies; or the device has failed, and then host memory holds it no
  // longer.
  bool Restore(PrefixId before, PrefixIndex::PageTokens tokens, int32_t page);
  // A step begins: it may make its copies.
  void BeginStep();
  // With the copies that this step has left, copies the pages to host memory that will be
  // overwritten next.
  void SaveAhead();
  // Withdraws all published pages: they get no further users.
  void WithdrawAll();

  // A preempted sequence's pages in host memory, by their numbers there. Drop frees them.
  struct Swapped {
    std::vector<int32_t> numbers;
    int pages() const { return static_cast<int>(numbers.size()); }
  };
  // Copies the pages out and releases them. False (and nothing changed): swap memory is short, or
  // the device has failed, which its next operation reports.
  bool SwapOut(std::vector<int32_t>& pages, Swapped& out);
  // Copies them back into newly allocated pages. False (and nothing changed): too few pages are
  // free, or the device has failed, which its next operation reports.
  bool SwapIn(Swapped& in, std::vector<int32_t>& pages);
  // Frees the pages of a swapped sequence.
  void Drop(Swapped& in);

  // A layer's pages, one after the other; page_bytes() from one to the next.
  std::byte* Layer(int layer) const { return PageAt(layer, 0); }
  size_t page_bytes() const { return page_bytes_; }
  DType dtype() const { return options_.dtype; }

 private:
  static constexpr int kUsesPerPage = 4;

  explicit KvPagePool(const KvPagePoolOptions& options);
  std::byte* PageAt(int layer, int32_t page) const;
  void AllocateSwapRoom();
  void AllocatePrefixRoom();
  int32_t TakeFree();
  bool Save(int32_t page);
  int32_t TakeHostPage();
  void Renew(int32_t host);
  Status CopyPage(int32_t page, int32_t host, bool is_out);
  // Copies pages in each layer; pages that are neighbours both here and in host memory go in one
  // copy.
  using QueueCopy = FunctionRef<Status(std::byte* page, std::byte* swapped, size_t bytes)>;
  Status CopyRuns(std::span<const int32_t> pages, std::span<const int32_t> swapped,
                  QueueCopy queue_copy) const;

  const KvPagePoolOptions options_;
  const size_t page_bytes_;  // of one layer
  int num_pages_ = 0;
  kernels::Context& context_;
  kernels::Buffer memory_;      // [layers, num_pages + 1, page_bytes]
  std::vector<int32_t> free_;   // taken from the back; lowest numbers first at the start
  std::vector<int32_t> users_;  // [num_pages], sequences that use a page
  int64_t shares_ = 0;          // users of pages, but the first of each
  PrefixIndex prefixes_{0};
  PageQueue kept_{0};  // published pages without users
  SwapRoom swap_;
  SwapRoom host_;                   // for published pages; numbers are given out here
  std::vector<int32_t> host_free_;  // its pages without content
  PageQueue saved_{0};              // those with content
  int prefix_copies_ = 0;           // of a step
  int copies_left_ = 0;             // of this step
  int copies_kept_ = 0;             // of these, copies that only Restore makes
  bool lacked_copy_ = false;        // Restore in this step
  int longest_growth_ = 0;          // pages that one sequence took, or wanted, at once
  uint64_t saves_ = 0;
  bool has_told_full_ = false;
};

}  // namespace janus::dataplane
