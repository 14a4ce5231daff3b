#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/kernels.h"

namespace janus::dataplane {

// A prefix of whole pages, by a number that is never used again. kNoPrefix is the empty one.
using PrefixId = uint64_t;
inline constexpr PrefixId kNoPrefix = 0;

// Which pages hold the keys and values of which prefixes of tokens: pages of the pool, pages of
// host memory, or one of each. A prefix is known by the prefix one page shorter and by the tokens
// of its last page. Tokens are compared, not only their hashes, so a request can never get the keys
// of other tokens.
//
// Confined to the step thread.
class PrefixIndex {
 public:
  using PageTokens = std::span<const int32_t, kernels::kPageTokens>;
  struct Entry {
    PrefixId id = kNoPrefix;
    int32_t page = -1;  // of the pool; -1: only host memory holds it
    int32_t host = -1;  // of host memory; -1: only the pool holds it
  };

  // `pages`, `host_pages`: the numbers of pages here and there are below it.
  explicit PrefixIndex(int pages, int host_pages = 0)
      : held_(static_cast<size_t>(pages), nullptr),
        host_held_(static_cast<size_t>(host_pages), nullptr) {}
  PrefixIndex(PrefixIndex&&) = default;
  PrefixIndex& operator=(PrefixIndex&&) = default;

  // The prefix `before` with `tokens` behind it; nothing: no page holds it.
  std::optional<Entry> Find(PrefixId before, PageTokens tokens) const;
  // `page` holds that prefix's last page. It holds no other prefix, and Find finds no page of the
  // pool for it.
  PrefixId Add(PrefixId before, PageTokens tokens, int32_t page);
  bool Holds(int32_t page) const { return held_[static_cast<size_t>(page)] != nullptr; }
  // The page will get other content. A prefix that no other page holds is gone; longer ones stay,
  // and can no longer be found.
  void Forget(int32_t page);

  // The page of host memory that holds the same prefix as `page`, which holds one; -1: none does.
  int32_t HostOf(int32_t page) const { return held_[static_cast<size_t>(page)]->second.host; }
  // From now on `host`, which holds nothing, holds the prefix of `page`, which no other one does.
  void AddHost(int32_t page, int32_t host);
  // As Forget, for a page of host memory.
  void ForgetHost(int32_t host);

 private:
  struct Key {
    PrefixId before = kNoPrefix;
    std::array<int32_t, kernels::kPageTokens> tokens = {};
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  // An element keeps its address while others come and go.
  using Held = std::unordered_map<Key, Entry, Hash>::value_type;
  static Key KeyOf(PrefixId before, PageTokens tokens);
  // Removes a page, here or there, from its entry, and an entry without pages.
  void Remove(Held*& held, int32_t Entry::*which);

  std::unordered_map<Key, Entry, Hash> entries_;
  std::vector<Held*> held_;       // [pages], the entry that a page holds; null: none
  std::vector<Held*> host_held_;  // [host_pages], the same
  PrefixId last_ = kNoPrefix;
};

}  // namespace janus::dataplane
