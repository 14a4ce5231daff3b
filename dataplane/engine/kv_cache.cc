#include "dataplane/engine/kv_cache.h"

#include <sys/mman.h>

#include <cstring>

namespace janus::dataplane {

KvCache::KvCache(const KvCacheOptions& options)
    : options_(options), page_bytes_(static_cast<size_t>(options.page_bytes)) {}

Result<std::unique_ptr<KvCache>> KvCache::Create(const KvCacheOptions& options) {
  std::unique_ptr<KvCache> cache(new KvCache(options));
  const auto layers = static_cast<size_t>(options.layers);
  const int64_t pages = options.bytes / static_cast<int64_t>(cache->page_bytes_ * layers);
  if (pages < 1) {
    return InvalidArgument("KV cache of " + std::to_string(options.bytes) + " bytes: one page of " +
                           std::to_string(kernels::kPageTokens) + " positions takes " +
                           std::to_string(cache->page_bytes_ * layers) + "; raise kvCache.size");
  }
  cache->num_pages_ = static_cast<int>(std::min<int64_t>(pages, INT32_MAX));
  cache->memory_bytes_ = cache->page_bytes_ * layers * static_cast<size_t>(cache->num_pages_);
  void* memory = mmap(nullptr, cache->memory_bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return ResourceExhausted("KV cache: cannot reserve " + std::to_string(cache->memory_bytes_) +
                             " bytes");
  }
  cache->memory_ = static_cast<std::byte*>(memory);
  cache->free_.reserve(static_cast<size_t>(cache->num_pages_));
  for (int page = cache->num_pages_ - 1; page >= 0; --page) cache->free_.push_back(page);
  return cache;
}

KvCache::~KvCache() {
  if (memory_ != nullptr) munmap(memory_, memory_bytes_);
}

std::byte* KvCache::PageAt(int layer, int32_t page) const {
  const size_t index =
      static_cast<size_t>(layer) * static_cast<size_t>(num_pages_) + static_cast<size_t>(page);
  return memory_ + index * page_bytes_;
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
  out.pages = static_cast<int>(pages.size());
  std::byte* to = out.bytes.data();
  for (int layer = 0; layer < options_.layers; ++layer) {
    for (const int32_t page : pages) {
      std::memcpy(to, PageAt(layer, page), page_bytes_);
      to += page_bytes_;
    }
  }
  swap_used_ += static_cast<int64_t>(bytes);
  Release(pages);
  return true;
}

bool KvCache::SwapIn(Swapped& in, std::vector<int32_t>& pages) {
  JANUS_CHECK(pages.empty(), pages.size());
  if (!Grow(pages, in.pages)) return false;
  const std::byte* from = in.bytes.data();
  for (int layer = 0; layer < options_.layers; ++layer) {
    for (const int32_t page : pages) {
      std::memcpy(PageAt(layer, page), from, page_bytes_);
      from += page_bytes_;
    }
  }
  Drop(in);
  return true;
}

void KvCache::Drop(Swapped& in) {
  swap_used_ -= static_cast<int64_t>(in.bytes.size());
  in = Swapped();
}

}  // namespace janus::dataplane
