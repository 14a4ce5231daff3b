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
  std::string identity;        // no other candidate's, nor an earlier process's of this one
  Seconds lease_duration{15};  // others wait so long since the last sign of the leader
  Seconds renew_deadline{10};  // a leader that could not renew for so long acts no more
  Seconds retry_period{2};     // between two attempts
  uint32_t seed = 0;           // of the time between attempts: RandomOf
  Gauge* leads = nullptr;      // 1 while this candidate leads, as of the last Step; null: none
};

// One candidate for a lease.
//
// Invariants:
// (1) Two candidates never lead at the same time, as long as their clocks run alike: a leader
//     counts renew_deadline from *before* it sent its last successful renewal, others count the
//     longer lease_duration from *after* they saw it. No times of different machines
//     are compared.
// (2) A leader has written the lease and has the reply: an update without a reply makes no leader.
// (3) A term is led by one candidate: its number grows with every change of hands, and over a
//     deletion of the lease. A leader that finds it gone, or not as it wrote it, leads no more at
//     once. A candidate that has seen an earlier lease makes a new one only when it has been
//     missing for as long as a leader that has not noticed may act. Its terms go on behind all
//     terms that the old one can have reached. (A candidate that has never seen one makes it at
//     once, with term 1: do not delete the lease while its candidates are replaced.)
//
// Driven: the owner of the loop calls Step when it says so. Step and Release are confined to one
// thread; Term and LeadsUntil are thread-safe.
class LeaderElection {
 public:
  // `api` and `clock` outlive this.
  LeaderElection(ObjectApi& api, LeaderElectionOptions options, const Clock& clock);

  // Takes the lease if it is free, renews it if it is ours. Blocks for up to three calls, each of
  // at most half the renew_deadline. Returns when to be called again; `last_error` says what went
  // wrong.
  MonotonicTime Step(const std::stop_token& stop);

  // The term we lead as of `now`; nothing: we may not act. Ask before every act, and let no act
  // begun in one term go on in another.
  std::optional<int64_t> Term(MonotonicTime now) const;

  // Until when Term gives one, unless it is renewed before; past: we do not lead. Thread-safe.
  MonotonicTime LeadsUntil() const;

  // Gives the lease up, so that another takes it within its retry_period. From here on Term gives
  // nothing, whether the call succeeds or not.
  Status Release();

  const Status& last_error() const { return last_error_; }
  // The leader, as far as we saw; empty: none.
  const std::string& leader() const { return leader_; }

 private:
  Status TryLead(const std::stop_token& stop);
  Status Make(const std::stop_token& stop);
  Status Take(Node lease, MonotonicTime began, const std::stop_token& stop);
  void Observe(const Node& lease);
  // Of a lease that names us: whether it is as we wrote it, or may have, and not a copy.
  bool IsAsWritten(const Node& lease) const;
  void Lead(const Node& lease, MonotonicTime since);
  void LeadNoMore();
  CallLimits Limits(const std::stop_token& stop) const;
  Node Lease(const std::string& holder, int64_t term) const;

  ObjectApi& api_;
  const LeaderElectionOptions options_;
  const Clock& clock_;
  std::minstd_rand random_;

  std::string seen_version_;                   // of the lease when it last changed,
  MonotonicTime seen_at_;                      // and when we saw that
  Seconds seen_duration_{0};                   // what its holder promised
  int64_t seen_term_ = 0;                      // the highest
  std::optional<MonotonicTime> missed_since_;  // the lease, after one was seen
  std::string leader_;
  std::optional<Node> ours_;  // the lease as we last wrote it; nothing: not known to be ours
  bool may_be_ours_ = false;  // a write of ours was not answered, and the lease not read since
  // What we last tried to write, whether it was answered or not.
  std::string written_uid_;  // empty: the server's to choose
  int64_t written_term_ = 0;
  Status last_error_;

  mutable Mutex mu_;
  std::optional<int64_t> term_ JANUS_GUARDED_BY(mu_);
  MonotonicTime leads_until_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::control
