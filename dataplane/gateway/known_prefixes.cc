#include "dataplane/gateway/known_prefixes.h"

namespace janus::gateway {

std::vector<uint64_t> KnownPrefixes::BlocksOf(std::span<const int32_t> tokens) {
  std::vector<uint64_t> blocks;
  blocks.reserve(tokens.size() / kBlockTokens);
  uint64_t hash = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    hash = (hash ^ static_cast<uint32_t>(tokens[i])) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 29;
    if ((i + 1) % kBlockTokens == 0) blocks.push_back(hash);
  }
  return blocks;
}

int64_t KnownPrefixes::TokensAt(uint64_t instance, std::span<const uint64_t> blocks) const {
  int64_t tokens = 0;
  for (const uint64_t block : blocks) {
    if (!at_.contains({instance, block})) break;
    tokens += kBlockTokens;
  }
  return tokens;
}

// The last block first, so that the first ones, which longer prompts need too, are kept longest.
void KnownPrefixes::Note(uint64_t instance, std::span<const uint64_t> blocks) {
  for (size_t i = blocks.size(); i-- > 0;) {
    const Key key{instance, blocks[i]};
    const auto [at, is_new] = at_.try_emplace(key);
    if (is_new) {
      at->second = order_.insert(order_.end(), key);
    } else {
      order_.splice(order_.end(), order_, at->second);
    }
  }
  while (order_.size() > most_) {
    at_.erase(order_.front());
    order_.pop_front();
  }
}

}  // namespace janus::gateway
