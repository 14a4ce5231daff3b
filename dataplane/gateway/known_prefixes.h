#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

namespace janus::gateway {

// What this gateway knows of the prefix caches: which instances were sent which beginnings of
// prompts. It is a guess, since an instance overwrites pages when it needs them. Beginnings are
// known in blocks of tokens, by a hash of all tokens up to the block's end; two with equal hashes
// are taken for one. The blocks not used for the longest time are forgotten first.
//
// Confined, or under the caller's lock.
class KnownPrefixes {
 public:
  static constexpr int kBlockTokens = 64;

  // `most`: blocks that are remembered, of all instances together.
  explicit KnownPrefixes(size_t most) : most_(most) {}
  KnownPrefixes(const KnownPrefixes&) = delete;
  KnownPrefixes& operator=(const KnownPrefixes&) = delete;

  // One hash per whole block.
  static std::vector<uint64_t> BlocksOf(std::span<const int32_t> tokens);

  // Tokens at the beginning that `instance` was sent before.
  int64_t TokensAt(uint64_t instance, std::span<const uint64_t> blocks) const;
  // `instance` gets a prompt that begins with these blocks.
  void Note(uint64_t instance, std::span<const uint64_t> blocks);
  size_t size() const { return order_.size(); }

 private:
  struct Key {
    uint64_t instance = 0;
    uint64_t block = 0;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      return static_cast<size_t>(key.block ^ (key.instance * 0x9e3779b97f4a7c15ULL));
    }
  };

  const size_t most_;
  std::list<Key> order_;  // the least recently used first
  std::unordered_map<Key, std::list<Key>::iterator, Hash> at_;
};

}  // namespace janus::gateway
