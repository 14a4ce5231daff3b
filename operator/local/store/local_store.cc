#include "operator/local/store/local_store.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "common/check.h"
#include "operator/local/store/garbage_collector.h"
#include "operator/local/store/write.h"

namespace janus::control {

LocalStore::LocalStore(LocalStoreOptions options, const Timeline& timeline)
    : timeline_(timeline), tables_(options.limits), random_(options.seed) {
  const Kind& kind = *FindKind("v1", "Namespace");
  Node made = Node::Map();
  made.Add("apiVersion", Node::String(kind.resource.ApiVersion()));
  made.Add("kind", Node::String(kind.resource.kind));
  for (const std::string& name : options.namespaces) {
    SetAt(made, {"metadata", "name"}, Node::String(name));
    Do([&](Session& session) {
      const Status status = CreateObject(session, kind, made, {"local-store"}, {}).status();
      JANUS_CHECK(status.ok(), status.ToString());
    });
  }
}

void LocalStore::Do(FunctionRef<void(Session&)> act) {
  const WallTime now = timeline_.WallNow();
  const MutexLock lock(mu_);
  const int64_t before = tables_.version();
  RemoveExpired(now);
  Session session{tables_, random_, now};
  act(session);
  if (tables_.version() == before) return;
  NoteExpiries(before, now);
  for (std::stop_source* const waiting : waiting_) waiting->request_stop();
}

void LocalStore::WaitBeyond(int64_t version, MonotonicTime until, const std::stop_token& stop) {
  std::stop_source wake;
  {
    const MutexLock lock(mu_);
    if (tables_.version() > version) return;
    waiting_.push_back(&wake);
  }
  {
    const std::stop_callback on_stop(stop, [&] { wake.request_stop(); });
    timeline_.WaitUntil(until, wake.get_token());
  }
  const MutexLock lock(mu_);
  std::erase(waiting_, &wake);
}

void LocalStore::RemoveExpired(WallTime now) {
  while (!expiries_.empty() && expiries_.front().when <= now) {
    const Expiry expired = std::move(expiries_.front());
    expiries_.pop_front();
    const SharedObject object = tables_.Find(expired.place);
    if (object == nullptr || ResourceVersionOf(*object) != std::to_string(expired.version)) {
      continue;
    }
    GarbageCollector(tables_, now).Delete(expired.place, Propagation::kBackground, std::nullopt);
  }
}

void LocalStore::NoteExpiries(int64_t since, WallTime now) {
  const History& history = tables_.history();
  for (int64_t at = std::max(since, history.floor()) + 1; at <= history.newest(); ++at) {
    const Change& change = history.At(at);
    if (!change.kind->time_to_live || change.after == nullptr) continue;
    const auto lives = std::chrono::duration_cast<WallTime::duration>(*change.kind->time_to_live);
    expiries_.push_back({now + lives, {change.kind, change.key}, at});
  }
}

}  // namespace janus::control
