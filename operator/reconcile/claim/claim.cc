#include "operator/reconcile/claim/claim.h"

#include <utility>

#include "operator/reconcile/objects/trees.h"

namespace janus::control {
namespace {

MonotonicTime After(MonotonicTime time, Seconds by) {
  return time + std::chrono::duration_cast<MonotonicTime::duration>(by);
}

Node With(const Node& service, const Claim& claim) {
  Node out = service;
  SetClaim(out, claim);
  return out;
}

}  // namespace

Claim ClaimOf(const Node& service) {
  return {std::string(TextAt(service, {"status", "operator", "name"})),
          std::string(TextAt(service, {"status", "operator", "challenger"}))};
}

void SetClaim(Node& service, const Claim& claim) {
  Node out = Object({{"name", Text(claim.holder)}});
  if (!claim.challenger.empty()) out.Add("challenger", Text(claim.challenger));
  SetAt(service, {"status", "operator"}, std::move(out));
}

std::string ClaimMemory::RivalAt(MonotonicTime now) const {
  return rival_asked && now < After(*rival_asked, kRivalFor) ? rival : "";
}

ClaimDecision DecideClaim(const Node& service, const std::string& release, MonotonicTime now,
                          ClaimMemory& memory) {
  if (release.empty()) return {.is_ours = true};
  const Claim claim = ClaimOf(service);
  if (claim.holder == release) {
    if (!claim.challenger.empty()) {
      memory.rival = claim.challenger;
      memory.rival_asked = now;
    }
    memory.challenged.reset();
    memory.met.clear();
    return {.is_ours = true};
  }
  if (claim.holder.empty()) return {.is_ours = true, .write = With(service, {release, ""})};

  ClaimDecision out;
  if (memory.met != claim.holder) {
    memory.met = claim.holder;
    out.event = ServiceEvent{
        EventType::kWarning,
        "Claim",
        {"AnotherOperator",
         "the operator of release " + claim.holder + " keeps this service; release " + release +
             " watches it too and writes nothing. Uninstall one of them, or give them different "
             "namespaces (watchNamespaces or namespaced of the chart)"}};
  }
  if (claim.challenger == release) {
    // A restarted process does not know when it asked.
    if (!memory.challenged) memory.challenged = now;
    if (now >= After(*memory.challenged, kAnswer)) {
      return {.is_ours = true, .write = With(service, {release, ""})};
    }
    out.again = After(*memory.challenged, kAnswer);
    return out;
  }
  if (memory.challenged && now < After(*memory.challenged, kChallengePause)) {
    out.again = After(*memory.challenged, kChallengePause);
    return out;
  }
  out.again = After(now, kAnswer);
  if (!claim.challenger.empty()) return out;  // a third release asks
  memory.challenged = now;
  out.write = With(service, {claim.holder, release});
  return out;
}

}  // namespace janus::control
