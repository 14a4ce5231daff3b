#include "dataplane/engine/kv_page_pool.h"

#include <algorithm>
#include <utility>

namespace janus::dataplane {
namespace {

// Copies of published pages delay a step: they are queued on its stream, and the host queues one
// for each layer. These bounds keep both near two milliseconds, and a step still copies about as
// many positions as it computes of prompts.
constexpr int kMostCopiesQueued = 2048;
constexpr int64_t kMostBytesCopied = int64_t{64} << 20;
// Steps that can overwrite pages at that rate without copying any, because it is done ahead.
constexpr int kStepsAhead = 32;

}  // namespace

KvPagePool::KvPagePool(const KvPagePoolOptions& options)
    : options_(options),
      page_bytes_(static_cast<size_t>(options.page_bytes)),
      context_(options.context != nullptr ? *options.context : kernels::HostContext()) {}

Result<std::unique_ptr<KvPagePool>> KvPagePool::Create(const KvPagePoolOptions& options) {
  std::unique_ptr<KvPagePool> cache(new KvPagePool(options));
  const auto layers = static_cast<size_t>(options.layers);
  const int64_t pages = options.bytes / static_cast<int64_t>(cache->page_bytes_ * layers);
  if (pages < 1) {
    return InvalidArgument("KV cache of " + std::to_string(options.bytes) + " bytes: one page of " +
                           std::to_string(kernels::kPageTokens) + " positions takes " +
                           std::to_string(cache->page_bytes_ * layers) + "; raise kvCache.size");
  }
  cache->num_pages_ = static_cast<int>(std::min<int64_t>(pages, INT32_MAX - 1));
  Result<kernels::Buffer> memory = cache->context_.Allocate(
      cache->page_bytes_ * layers * (static_cast<size_t>(cache->num_pages_) + 1));
  if (!memory.ok()) return std::move(memory).status().Annotate("KV cache");
  cache->memory_ = *std::move(memory);
  cache->free_.reserve(static_cast<size_t>(cache->num_pages_));
  for (int page = cache->num_pages_ - 1; page >= 0; --page) cache->free_.push_back(page);
  cache->users_.assign(static_cast<size_t>(cache->num_pages_), 0);
  cache->kept_ = PageQueue(cache->num_pages_);
  cache->AllocateSwapRoom();
  cache->AllocatePrefixRoom();
  cache->prefixes_ = PrefixIndex(cache->num_pages_, cache->host_.pages());
  return cache;
}

std::byte* KvPagePool::PageAt(int layer, int32_t page) const {
  const size_t index = static_cast<size_t>(layer) * (static_cast<size_t>(num_pages_) + 1) +
                       static_cast<size_t>(page);
  return memory_.data() + index * page_bytes_;
}

bool KvPagePool::Grow(std::vector<int32_t>& pages, int count) {
  const int missing = count - static_cast<int>(pages.size());
  const int64_t uses = int64_t{num_pages_ - free_pages()} + shares_ + missing;
  longest_growth_ = std::max(longest_growth_, std::min(missing, num_pages_));
  if (missing > free_pages() || uses > most_uses()) return false;
  for (int i = 0; i < missing; ++i) pages.push_back(TakeFree());
  return true;
}

int32_t KvPagePool::TakeFree() {
  int32_t page = kept_.first();
  if (!free_.empty()) {
    page = free_.back();
    free_.pop_back();
  } else {
    kept_.Remove(page);
    if (const int32_t host = prefixes_.HostOf(page); host >= 0) {
      // It counts from now, as if it were copied now. So host memory keeps the order of kept_, in
      // which a prefix comes after all longer ones.
      Renew(host);
    } else {
      Save(page);
    }
    prefixes_.Forget(page);
  }
  users_[static_cast<size_t>(page)] = 1;
  return page;
}

void KvPagePool::Release(int32_t page) {
  if (--users_[static_cast<size_t>(page)] > 0) {
    --shares_;
    return;
  }
  if (prefixes_.Holds(page)) {
    kept_.Add(page);
  } else {
    free_.push_back(page);
  }
}

void KvPagePool::Release(std::vector<int32_t>& pages) {
  while (!pages.empty()) {
    Release(pages.back());
    pages.pop_back();
  }
}

void KvPagePool::Share(int32_t page) {
  if (users_[static_cast<size_t>(page)]++ == 0) {
    kept_.Remove(page);
  } else {
    ++shares_;
  }
}

PrefixId KvPagePool::Publish(PrefixId before, PrefixIndex::PageTokens tokens, int32_t& page) {
  if (const auto held = prefixes_.Find(before, tokens); held && held->page >= 0) {
    if (held->page != page) {
      Share(held->page);
      Release(page);
      page = held->page;
    }
    return held->id;
  }
  // The prefix before this page was forgotten meanwhile and got another number.
  prefixes_.Forget(page);
  return prefixes_.Add(before, tokens, page);
}

void KvPagePool::Renew(int32_t host) {
  saved_.Remove(host);
  saved_.Add(host);
}

void KvPagePool::Await(std::span<const PrefixIndex::Entry> prefixes) {
  for (auto one = prefixes.rbegin(); one != prefixes.rend(); ++one) {
    if (one->host >= 0) Renew(one->host);
  }
}

bool KvPagePool::Restore(PrefixId before, PrefixIndex::PageTokens tokens, int32_t page) {
  const auto held = prefixes_.Find(before, tokens);
  JANUS_CHECK(held && held->page < 0 && held->host >= 0, page);
  if (copies_left_ == 0) {
    lacked_copy_ = true;
    return false;
  }
  copies_kept_ = std::max(copies_kept_ - 1, 0);
  if (!CopyPage(page, held->host, false).ok()) {
    prefixes_.ForgetHost(held->host);
    saved_.Remove(held->host);
    host_free_.push_back(held->host);
    return false;
  }
  prefixes_.Forget(page);
  prefixes_.Add(before, tokens, page);
  return true;
}

// Copies what a published page holds to host memory. False: no copy is left, or it failed.
bool KvPagePool::Save(int32_t page) {
  if (host_.pages() == 0 || copies_left_ <= copies_kept_) return false;
  const int32_t host = TakeHostPage();
  if (!CopyPage(page, host, true).ok()) {
    host_free_.push_back(host);
    return false;
  }
  prefixes_.AddHost(page, host);
  saved_.Add(host);
  ++saves_;
  return true;
}

int32_t KvPagePool::TakeHostPage() {
  int32_t host = saved_.first();
  if (!host_free_.empty()) {
    host = host_free_.back();
    host_free_.pop_back();
  } else {
    saved_.Remove(host);
    prefixes_.ForgetHost(host);
  }
  return host;
}

Status KvPagePool::CopyPage(int32_t page, int32_t host, bool is_out) {
  --copies_left_;
  for (int layer = 0; layer < options_.layers; ++layer) {
    std::byte* const here = PageAt(layer, page);
    std::byte* const there = host_.PageAt(layer, host);
    JANUS_RETURN_IF_ERROR(is_out ? context_.CopyOut(there, here, page_bytes_)
                                 : context_.CopyIn(here, there, page_bytes_));
  }
  return OkStatus();
}

void KvPagePool::BeginStep() {
  copies_left_ = prefix_copies_;
  copies_kept_ = std::exchange(lacked_copy_, false) ? (prefix_copies_ + 1) / 2 : 0;
}

void KvPagePool::SaveAhead() {
  if (host_.pages() == 0) return;
  copies_kept_ = 0;
  auto ready = static_cast<int64_t>(free_.size());
  // As many as the longest prompt takes at once, or the head of a prefix would be lost, and what
  // is saved behind it could not be found. No more than there is room for, or the pages saved last
  // would replace those saved first, in every step anew.
  const int64_t wanted =
      std::min(std::max(int64_t{kStepsAhead} * prefix_copies_, int64_t{longest_growth_}),
               ready + host_.pages());
  for (int32_t page = kept_.first(); page >= 0 && ready < wanted; page = kept_.Next(page)) {
    if (prefixes_.HostOf(page) < 0 && !Save(page)) return;
    ++ready;
  }
}

void KvPagePool::WithdrawAll() {
  while (saved_.size() > 0) {
    const int32_t host = saved_.first();
    prefixes_.ForgetHost(host);
    saved_.Remove(host);
    host_free_.push_back(host);
  }
  for (int32_t page = 0; page < num_pages_; ++page) prefixes_.Forget(page);
  while (kept_.size() > 0) {
    free_.push_back(kept_.first());
    kept_.Remove(kept_.first());
  }
}

void KvPagePool::AllocateSwapRoom() {
  const int64_t pages = options_.swap_bytes / (options_.page_bytes * options_.layers);
  if (pages < 1) return;
  const Status taken = swap_.TakePages(context_, options_.layers, page_bytes_,
                                       static_cast<int>(std::min<int64_t>(pages, INT32_MAX - 1)));
  if (taken.ok()) return;
  options_.log.Warning("no host memory for preempted sequences: they are computed again",
                       {{"swap_bytes", options_.swap_bytes}, {"error", taken.ToString()}});
}

void KvPagePool::AllocatePrefixRoom() {
  const int64_t page_bytes = options_.page_bytes * options_.layers;
  const auto pages =
      static_cast<int>(std::min<int64_t>(options_.prefix_host_bytes / page_bytes, INT32_MAX - 1));
  if (pages < 1) return;
  const Status taken = host_.TakePages(context_, options_.layers, page_bytes_, pages);
  if (!taken.ok()) {
    options_.log.Warning(
        "no host memory for shared prefixes: what the device has no room for is computed again",
        {{"prefix_host_bytes", options_.prefix_host_bytes}, {"error", taken.ToString()}});
    return;
  }
  saved_ = PageQueue(pages);
  host_free_.reserve(static_cast<size_t>(pages));
  for (int page = pages - 1; page >= 0; --page) host_free_.push_back(page);
  const int64_t fit = std::min<int64_t>(kMostCopiesQueued / std::max(options_.layers, 1),
                                        kMostBytesCopied / page_bytes);
  prefix_copies_ = options_.prefix_copies > 0 ? options_.prefix_copies
                                              : static_cast<int>(std::max<int64_t>(fit, 1));
}

Status KvPagePool::CopyRuns(std::span<const int32_t> pages, std::span<const int32_t> swapped,
                            QueueCopy queue_copy) const {
  for (size_t begin = 0, end = 0; begin < pages.size(); begin = end) {
    for (end = begin + 1; end < pages.size(); ++end) {
      if (pages[end] != pages[end - 1] + 1 || swapped[end] != swapped[end - 1] + 1) break;
    }
    for (int layer = 0; layer < options_.layers; ++layer) {
      JANUS_RETURN_IF_ERROR(queue_copy(PageAt(layer, pages[begin]),
                                       swap_.PageAt(layer, swapped[begin]),
                                       (end - begin) * page_bytes_));
    }
  }
  return OkStatus();
}

bool KvPagePool::SwapOut(std::vector<int32_t>& pages, Swapped& out) {
  JANUS_CHECK(out.numbers.empty(), out.pages());
  if (!swap_.Give(static_cast<int>(pages.size()), out.numbers)) {
    if (swap_.pages() > 0 && !std::exchange(has_told_full_, true)) {
      options_.log.Warning(
          "host memory for preempted sequences is full: they are computed again",
          {{"swap_bytes", options_.swap_bytes},
           {"used", swap_used()},
           {"wanted", static_cast<int64_t>(pages.size()) * options_.layers * options_.page_bytes}});
    }
    return false;
  }
  const Status copied =
      CopyRuns(pages, out.numbers, [&](std::byte* page, std::byte* swapped, size_t bytes) {
        return context_.CopyOut(swapped, page, bytes);
      });
  if (!copied.ok()) {
    Drop(out);
    return false;
  }
  Release(pages);
  return true;
}

bool KvPagePool::SwapIn(Swapped& in, std::vector<int32_t>& pages) {
  JANUS_CHECK(pages.empty(), pages.size());
  if (!Grow(pages, in.pages())) return false;
  const Status copied =
      CopyRuns(pages, in.numbers, [&](std::byte* page, std::byte* swapped, size_t bytes) {
        return context_.CopyIn(page, swapped, bytes);
      });
  if (!copied.ok()) {
    Release(pages);
    return false;
  }
  Drop(in);
  return true;
}

void KvPagePool::Drop(Swapped& in) {
  swap_.TakeBack(in.numbers);
}

}  // namespace janus::dataplane
