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

// Which pages hold the keys and values of which prefixes of tokens. A prefix is known by the prefix
// one page shorter and by the tokens of its last page. Tokens are compared, not only their hashes,
// so a request can never get the keys of other tokens.
//
// Confined to the step thread.
class PrefixIndex {
 public:
  using PageTokens = std::span<const int32_t, kernels::kPageTokens>;
  struct Entry {
    PrefixId id = kNoPrefix;
    int32_t page = -1;
  };

  // `pages`: page numbers are below it.
  explicit PrefixIndex(int pages) : keys_(static_cast<size_t>(pages), nullptr) {}
  PrefixIndex(PrefixIndex&&) = default;
  PrefixIndex& operator=(PrefixIndex&&) = default;

  // The prefix `before` with `tokens` behind it; nothing: no page holds it.
  std::optional<Entry> Find(PrefixId before, PageTokens tokens) const;
  // `page` holds that prefix's last page. It holds no other prefix, and Find finds no page for it.
  PrefixId Add(PrefixId before, PageTokens tokens, int32_t page);
  bool Holds(int32_t page) const { return keys_[static_cast<size_t>(page)] != nullptr; }
  // The page will get other content. Longer prefixes stay, and can no longer be found.
  void Forget(int32_t page);

 private:
  struct Key {
    PrefixId before = kNoPrefix;
    std::array<int32_t, kernels::kPageTokens> tokens = {};
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  static Key KeyOf(PrefixId before, PageTokens tokens);

  std::unordered_map<Key, Entry, Hash> entries_;
  std::vector<const Key*> keys_;  // [pages], of the entry that a page holds; null: none
  PrefixId last_ = kNoPrefix;
};

}  // namespace janus::dataplane
