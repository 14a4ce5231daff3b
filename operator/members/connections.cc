#include "operator/members/connections.h"

#include <algorithm>

#include "rpc/channel.h"

namespace janus::control {

Connections::Relay Connections::Choose(std::span<const std::string> addresses,
                                       const std::string& service_uid) {
  const Security security = security_ ? security_(service_uid) : Security{};
  const MutexLock lock(mu_);
  const auto failed = [&](const std::string& address) JANUS_REQUIRES(mu_) {
    const auto found = entries_.find(address);
    return found == entries_.end() ? 0 : found->second.failed;
  };
  const std::string& chosen =
      *std::min_element(addresses.begin(), addresses.end(),
                        [&](const std::string& a, const std::string& b)
                            JANUS_REQUIRES(mu_) { return failed(a) < failed(b); });
  Entry& entry = entries_[chosen];
  if (entry.stub == nullptr || entry.version != security.version) {
    entry.stub = v1::Control::NewStub(DialInstance(chosen, security.Credentials()));
    entry.version = security.version;
  }
  entry.used = ++clock_;
  Relay relay{chosen, entry.stub};
  if (entries_.size() > most_) {
    entries_.erase(std::min_element(
        entries_.begin(), entries_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  }
  return relay;
}

void Connections::Failed(const std::string& address) {
  const MutexLock lock(mu_);
  const auto found = entries_.find(address);
  if (found == entries_.end()) return;
  found->second.failed = ++clock_;
  // Dial again at once next time, without the backoff that gRPC started after this failure.
  found->second.stub = nullptr;
}

void Connections::CameThrough(const std::string& address) {
  const MutexLock lock(mu_);
  const auto found = entries_.find(address);
  if (found != entries_.end()) found->second.failed = 0;
}

size_t Connections::open() const {
  const MutexLock lock(mu_);
  return entries_.size();
}

}  // namespace janus::control
