#include "dataplane/worker/gateway_book.h"

#include <utility>

namespace janus::dataplane {

bool GatewayBook::IsOver(const Entry& entry) const {
  return entry.streams.empty() && clock_.Now() - entry.last_attached >= kKept;
}

bool GatewayBook::MakeRoom() {
  std::erase_if(entries_, [&](const auto& one) { return IsOver(one.second); });
  if (entries_.size() < GatewayReports::kMost) return true;
  auto oldest = entries_.end();
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    if (!at->second.streams.empty()) continue;
    if (oldest == entries_.end() || at->second.last_attached < oldest->second.last_attached) {
      oldest = at;
    }
  }
  if (oldest == entries_.end()) return false;
  entries_.erase(oldest);
  return true;
}

GatewayBook::Entry* GatewayBook::EntryOf(uint64_t stream) {
  const auto known = gateway_of_.find(stream);
  if (known == gateway_of_.end()) return nullptr;
  const std::string& id = known->second;
  auto entry = entries_.find(id);
  if (entry == entries_.end()) {
    if (!MakeRoom()) {
      left_out_.insert(stream);
      return nullptr;
    }
    entry = entries_.try_emplace(id).first;
    entry->second.counts.gateway_id = id;
  }
  left_out_.erase(stream);
  entry->second.streams.insert(stream);
  return &entry->second;
}

void GatewayBook::Attach(uint64_t stream, const std::string& gateway_id) {
  const MutexLock lock(mu_);
  gateway_of_[stream] = gateway_id;
  (void)EntryOf(stream);  // null: counted in left_out_
}

void GatewayBook::Take(uint64_t stream, GatewayCounts counts) {
  const MutexLock lock(mu_);
  Entry* const entry = EntryOf(stream);
  if (entry == nullptr || counts.reports <= entry->counts.reports) return;
  counts.gateway_id = gateway_of_[stream];
  entry->counts = std::move(counts);
  entry->taken = clock_.Now();
}

void GatewayBook::Detach(uint64_t stream) {
  const MutexLock lock(mu_);
  const auto known = gateway_of_.find(stream);
  if (known == gateway_of_.end()) return;
  if (const auto entry = entries_.find(known->second); entry != entries_.end()) {
    entry->second.streams.erase(stream);
    entry->second.last_attached = clock_.Now();
  }
  left_out_.erase(stream);
  gateway_of_.erase(known);
}

GatewayReports GatewayBook::Read() const {
  const MutexLock lock(mu_);
  const MonotonicTime now = clock_.Now();
  GatewayReports out;
  out.left_out = left_out_.size();
  for (const auto& [id, entry] : entries_) {
    if (IsOver(entry)) continue;
    GatewayCounts& one = out.gateways.emplace_back(entry.counts);
    one.is_attached = !entry.streams.empty();
    const double since = one.reports > 0 ? Seconds(now - entry.taken).count() : 0;
    one.age_seconds += since;
    if (one.waiting > 0) one.oldest_waiting_seconds += since;
    if (one.is_attached) continue;
    one.waiting = one.waiting_prompt_tokens = 0;
    one.oldest_waiting_seconds = 0;
  }
  return out;
}

}  // namespace janus::dataplane
