#include "dataplane/engine/kv_cache.h"

#include <algorithm>
#include <utility>

namespace janus::dataplane {

KvCache::KvCache(const KvCacheOptions& options)
    : options_(options),
      page_bytes_(static_cast<size_t>(options.page_bytes)),
      context_(options.context != nullptr ? *options.context : kernels::HostContext()) {}

Result<std::unique_ptr<KvCache>> KvCache::Create(const KvCacheOptions& options) {
  std::unique_ptr<KvCache> cache(new KvCache(options));
  const auto layers = static_cast<size_t>(options.layers);
  const int64_t pages = options.bytes / static_cast<int64_t>(cache->page_bytes_ * layers);
  if (pages < 1) {
    return InvalidArgument("KV cache of " + std::to_string(options.bytes) + " bytes: one page of " +
                           std::to_string(kernels::kPageTokens) + " positions takes " +
                           std::to_string(cache->page_bytes_ * layers) + "; raise kvCache.size");
  }
  cache->num_pages_ = static_cast<int>(std::min<int64_t>(pages, INT32_MAX - 1));
  Result<kernels::Buffer> memory = cache->context_.Take(
      cache->page_bytes_ * layers * (static_cast<size_t>(cache->num_pages_) + 1));
  if (!memory.ok()) return std::move(memory).status().Annotate("KV cache");
  cache->memory_ = *std::move(memory);
  cache->free_.reserve(static_cast<size_t>(cache->num_pages_));
  for (int page = cache->num_pages_ - 1; page >= 0; --page) cache->free_.push_back(page);
  return cache;
}

std::byte* KvCache::PageAt(int layer, int32_t page) const {
  const size_t index = static_cast<size_t>(layer) * (static_cast<size_t>(num_pages_) + 1) +
                       static_cast<size_t>(page);
  return memory_.data() + index * page_bytes_;
}

bool KvCache::Grow(std::vector<int32_t>& pages, int count) {
  const int missing = count - static_cast<int>(pages.size());
  if (missing > free_pages()) return false;
  for (int i = 0; i < missing; ++i) {
    pages.push_back(free_.back());
    free_.pop_back();
  }
  return true;
}

void KvCache::Release(std::vector<int32_t>& pages) {
  while (!pages.empty()) {
    free_.push_back(pages.back());
    pages.pop_back();
  }
}

bool KvCache::SwapOut(std::vector<int32_t>& pages, Swapped& out) {
  const size_t bytes = pages.size() * page_bytes_ * static_cast<size_t>(options_.layers);
  if (swap_used_ + static_cast<int64_t>(bytes) > options_.swap_bytes) return false;
  out.bytes.resize(bytes);
  std::byte* to = out.bytes.data();
  bool copied = true;
  for (int layer = 0; layer < options_.layers; ++layer) {
    for (const int32_t page : pages) {
      copied = copied && context_.CopyOut(to, PageAt(layer, page), page_bytes_).ok();
      to += page_bytes_;
    }
  }
  // Before others are given the pages, and the bytes move with their sequence.
  if (!context_.Wait().ok() || !copied) {
    out = Swapped();
    return false;
  }
  out.pages = static_cast<int>(pages.size());
  swap_used_ += static_cast<int64_t>(bytes);
  Release(pages);
  return true;
}

bool KvCache::SwapIn(Swapped& in, std::vector<int32_t>& pages) {
  JANUS_CHECK(pages.empty(), pages.size());
  if (!Grow(pages, in.pages)) return false;
  const std::byte* from = in.bytes.data();
  bool copied = true;
  for (int layer = 0; layer < options_.layers; ++layer) {
    for (const int32_t page : pages) {
      copied = copied && context_.CopyIn(PageAt(layer, page), from, page_bytes_).ok();
      from += page_bytes_;
    }
  }
  if (!context_.Wait().ok() || !copied) {
    Release(pages);
    return false;
  }
  Drop(in);
  return true;
}

void KvCache::Drop(Swapped& in) {
  swap_used_ -= static_cast<int64_t>(in.bytes.size());
  in = Swapped();
}

}  // namespace janus::dataplane
