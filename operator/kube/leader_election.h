#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <stop_token>
#include <string>

#include "common/clock.h"
#include "common/metrics.h"
#include "common/mutex.h"
#include "operator/kube/object_api.h"

namespace janus::control {

// client-go's defaults. lease_duration > renew_deadline > retry_period > 0.
struct LeaderElectionOptions {
  ObjectKey lease;             // of coordination.k8s.io/v1
  std::string identity;        // unique among candidates and over restarts
  Seconds lease_duration{15};  // other candidates wait this long after the last renewal they saw
  Seconds renew_deadline{10};  // a leader that could not renew for this long stops acting
  Seconds retry_period{2};     // between two attempts
  uint32_t seed = 0;           // of the time between attempts (RandomOf)
  Gauge* leads = nullptr;      // 1 while this candidate leads, set by Step; null: not counted
};

// A candidate for a lease.
//
// Invariants:
// (1) Two candidates never lead at the same time if their clocks run at the same rate. A leader
//     counts renew_deadline from *before* it sent its last successful renewal. Others count the
//     longer lease_duration from *after* they saw it. Times of different machines are never
//     compared.
// (2) A leader has written the lease and received the reply. An update without a reply does not
//     make a leader.
// (3) A term has one leader. Its number grows with every change of leader, even if the lease is
//     deleted. A leader stops at once if the lease is gone or differs from what it wrote. A
//     candidate that has seen an earlier lease waits before it recreates it, until no unaware
//     leader can still act. The new term is above all terms that the old lease can have reached. (A
//     candidate that has never seen a lease creates it at once, with term 1. So do not delete the
//     lease while its candidates are replaced.)
//
// The owner of the loop calls Step at the times that Step returns. Step and Release are confined to
// one thread; Term and LeadsUntil are thread-safe.
class LeaderElection {
 public:
  // `api` and `clock` outlive this.
  LeaderElection(ObjectApi& api, LeaderElectionOptions options, const Clock& clock);

  // Takes the lease if it is free, renews it if we hold it. Blocks for up to three calls, each of
  // at most half the renew_deadline. Returns when to call it again; `last_error` says what failed.
  MonotonicTime Step(const std::stop_token& stop);

  // The term that we lead at `now`; nothing: we may not act. Check before every action, and do not
  // continue an action from one term in another.
  std::optional<int64_t> Term(MonotonicTime now) const;

  // When our term ends without a renewal; in the past: we do not lead. Thread-safe.
  MonotonicTime LeadsUntil() const;

  // Gives the lease up, so that another candidate takes it within its retry_period. From now on
  // Term returns nothing, even if the call fails.
  Status Release();

  const Status& last_error() const { return last_error_; }
  // The last leader that we saw; empty: we saw none.
  const std::string& leader() const { return leader_; }

 private:
  Status TryLead(const std::stop_token& stop);
  Status Make(const std::stop_token& stop);
  Status Take(Node lease, MonotonicTime began, const std::stop_token& stop);
  void Observe(const Node& lease);
  // For a lease that names us: whether it is what we wrote, or may have written, and not a copy.
  bool IsAsWritten(const Node& lease) const;
  void Lead(const Node& lease, MonotonicTime since);
  void LeadNoMore();
  CallLimits Limits(const std::stop_token& stop) const;
  Node Lease(const std::string& holder, int64_t term) const;

  ObjectApi& api_;
  const LeaderElectionOptions options_;
  const Clock& clock_;
  std::minstd_rand random_;

  std::string seen_version_;                   // lease version at its last change,
  MonotonicTime seen_at_;                      // and when we saw that change
  Seconds seen_duration_{0};                   // lease duration that its holder wrote
  int64_t seen_term_ = 0;                      // the highest term seen
  std::optional<MonotonicTime> missed_since_;  // since when a lease seen before is missing
  std::string leader_;
  std::optional<Node> ours_;  // the lease as we last wrote it; nothing: we may not hold it
  bool may_be_ours_ = false;  // a write of ours had no reply, and the lease was not read since
  // Our last write, with or without a reply.
  std::string written_uid_;  // empty: the server chooses it
  int64_t written_term_ = 0;
  Status last_error_;

  mutable Mutex mu_;
  std::optional<int64_t> term_ JANUS_GUARDED_BY(mu_);
  MonotonicTime leads_until_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::control
