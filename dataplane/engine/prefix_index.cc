#include "dataplane/engine/prefix_index.h"

#include <algorithm>

#include "common/check.h"
#include "common/fingerprint.h"

namespace janus::dataplane {

size_t PrefixIndex::Hash::operator()(const Key& key) const {
  Fingerprint hash;
  hash.Mix(key.before);
  for (const int32_t token : key.tokens) hash.Mix(static_cast<uint64_t>(token));
  return static_cast<size_t>(hash.value());
}

PrefixIndex::Key PrefixIndex::KeyOf(PrefixId before, PageTokens tokens) {
  Key key{before, {}};
  std::copy(tokens.begin(), tokens.end(), key.tokens.begin());
  return key;
}

std::optional<PrefixIndex::Entry> PrefixIndex::Find(PrefixId before, PageTokens tokens) const {
  const auto at = entries_.find(KeyOf(before, tokens));
  if (at == entries_.end()) return std::nullopt;
  return at->second;
}

PrefixId PrefixIndex::Add(PrefixId before, PageTokens tokens, int32_t page) {
  JANUS_CHECK(!Holds(page), page);
  const auto [at, is_new] = entries_.emplace(KeyOf(before, tokens), Entry{++last_, page});
  JANUS_CHECK(is_new, page);
  keys_[static_cast<size_t>(page)] = &at->first;
  return last_;
}

void PrefixIndex::Forget(int32_t page) {
  const Key*& key = keys_[static_cast<size_t>(page)];
  if (key == nullptr) return;
  entries_.erase(entries_.find(*key));
  key = nullptr;
}

}  // namespace janus::dataplane
