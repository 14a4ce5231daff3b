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
  const auto [at, is_new] = entries_.try_emplace(KeyOf(before, tokens));
  Entry& entry = at->second;
  JANUS_CHECK(is_new || entry.page < 0, page);
  if (is_new) entry.id = ++last_;
  entry.page = page;
  held_[static_cast<size_t>(page)] = &*at;
  return entry.id;
}

void PrefixIndex::Remove(Held*& held, int32_t Entry::*which) {
  if (held == nullptr) return;
  Entry& entry = held->second;
  entry.*which = -1;
  if (entry.page < 0 && entry.host < 0) entries_.erase(entries_.find(held->first));
  held = nullptr;
}

void PrefixIndex::Forget(int32_t page) {
  Remove(held_[static_cast<size_t>(page)], &Entry::page);
}

void PrefixIndex::AddHost(int32_t page, int32_t host) {
  Held* const held = held_[static_cast<size_t>(page)];
  Held*& of_host = host_held_[static_cast<size_t>(host)];
  JANUS_CHECK(held->second.host < 0 && of_host == nullptr, host);
  held->second.host = host;
  of_host = held;
}

void PrefixIndex::ForgetHost(int32_t host) {
  Remove(host_held_[static_cast<size_t>(host)], &Entry::host);
}

}  // namespace janus::dataplane
