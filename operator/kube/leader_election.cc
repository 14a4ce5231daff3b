#include "operator/kube/leader_election.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/check.h"
#include "operator/api/rfc3339.h"
#include "operator/kube/retry.h"

namespace janus::control {
namespace {

// A new lease starts with the next multiple of this. Leaders of the deleted lease that no other
// candidate saw had lower terms.
constexpr int64_t kTermsOfALease = 1000;

const Resource kLeases{"coordination.k8s.io", "v1", "leases", "Lease", true};

MonotonicTime Add(MonotonicTime time, Seconds by) {
  return time + std::chrono::duration_cast<MonotonicTime::duration>(by);
}

int64_t TermOf(const Node& lease) {
  return IntegerAt(lease, {"spec", "leaseTransitions"}).value_or(0);
}

std::string HolderOf(const Node& lease) {
  return std::string(TextAt(lease, {"spec", "holderIdentity"}));
}

}  // namespace

LeaderElection::LeaderElection(ObjectApi& api, LeaderElectionOptions options, const Clock& clock)
    : api_(api), options_(std::move(options)), clock_(clock), random_(RandomOf(options_.seed)) {
  JANUS_CHECK(!options_.identity.empty() && options_.retry_period > Seconds(0) &&
                  options_.renew_deadline > options_.retry_period &&
                  options_.lease_duration > options_.renew_deadline,
              options_.identity, options_.lease_duration.count(), options_.renew_deadline.count(),
              options_.retry_period.count());
}

CallLimits LeaderElection::Limits(const std::stop_token& stop) const {
  return {options_.renew_deadline / 2, stop};
}

// The spec that a holder writes, and the object's name.
Node LeaderElection::Lease(const std::string& holder, int64_t term) const {
  Node out = Node::Map();
  out.Add("apiVersion", Node::String(kLeases.ApiVersion()));
  out.Add("kind", Node::String(kLeases.kind));
  SetAt(out, {"metadata", "name"}, Node::String(options_.lease.name));
  SetAt(out, {"metadata", "namespace"}, Node::String(options_.lease.namespace_));
  const std::string now = FormatMicroTime(clock_.WallNow());  // for people only
  SetAt(out, {"spec", "holderIdentity"}, Node::String(holder));
  SetAt(out, {"spec", "leaseDurationSeconds"},
        Node::Integer(static_cast<int64_t>(std::ceil(options_.lease_duration.count()))));
  SetAt(out, {"spec", "acquireTime"}, Node::String(now));
  SetAt(out, {"spec", "renewTime"}, Node::String(now));
  SetAt(out, {"spec", "leaseTransitions"}, Node::Integer(term));
  return out;
}

bool LeaderElection::IsAsWritten(const Node& lease) const {
  return HolderOf(lease) == options_.identity && TermOf(lease) == written_term_ &&
         (written_uid_.empty() || UidOf(lease) == written_uid_);
}

void LeaderElection::Observe(const Node& lease) {
  may_be_ours_ = false;
  leader_ = HolderOf(lease);
  seen_term_ = std::max(seen_term_, TermOf(lease));
  missed_since_.reset();
  if (ResourceVersionOf(lease) == seen_version_) return;
  seen_version_ = ResourceVersionOf(lease);
  seen_at_ = clock_.Now();
  seen_duration_ =
      Seconds(static_cast<double>(IntegerAt(lease, {"spec", "leaseDurationSeconds"}).value_or(0)));
}

void LeaderElection::Lead(const Node& lease, MonotonicTime since) {
  Observe(lease);
  ours_ = lease;
  written_uid_ = UidOf(lease);
  const MutexLock lock(mu_);
  term_ = TermOf(lease);
  leads_until_ = Add(since, options_.renew_deadline);
}

void LeaderElection::LeadNoMore() {
  ours_.reset();
  const MutexLock lock(mu_);
  term_.reset();
}

// Writes our identity into a lease that is free or ours.
Status LeaderElection::Take(Node lease, MonotonicTime began, const std::stop_token& stop) {
  const bool is_ours = IsAsWritten(lease);
  const int64_t term = is_ours ? written_term_ : std::max(seen_term_, TermOf(lease)) + 1;
  const Node wanted = Lease(options_.identity, term);
  for (const std::string_view field :
       {"holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions"}) {
    if (is_ours && field == "acquireTime") continue;
    SetAt(lease, {"spec", field}, *FindAt(wanted, {"spec", field}));
  }
  ours_.reset();
  written_uid_ = UidOf(lease);
  written_term_ = term;
  const ApiResult<Node> written = api_.Update(kLeases, lease, Subresource::kNone, {}, Limits(stop));
  may_be_ours_ = !written.ok() && written.error().outcome_unknown;
  if (!written.ok()) return written.status();
  Lead(*written, began);
  return OkStatus();
}

// The lease does not exist.
Status LeaderElection::Make(const std::stop_token& stop) {
  LeadNoMore();
  leader_.clear();
  const MonotonicTime began = clock_.Now();
  int64_t term = 1;
  if (!seen_version_.empty()) {
    if (!missed_since_) missed_since_ = began;
    // Another candidate may have taken it just before its deletion.
    if (began < Add(*missed_since_, std::max(options_.lease_duration, seen_duration_))) {
      return OkStatus();
    }
    term = (seen_term_ / kTermsOfALease + 1) * kTermsOfALease;
  }
  written_uid_.clear();
  written_term_ = term;
  const ApiResult<Node> made =
      api_.Create(kLeases, Lease(options_.identity, term), {}, Limits(stop));
  may_be_ours_ = !made.ok() && made.error().outcome_unknown;
  if (made.ok()) Lead(*made, began);
  return made.status();
}

Status LeaderElection::TryLead(const std::stop_token& stop) {
  MonotonicTime began = clock_.Now();
  if (ours_) {
    const Status renewed = Take(*ours_, began, stop);
    if (renewed.ok()) return renewed;
    // Another process wrote it, or the reply was lost: read it.
  }
  const ApiResult<Node> lease = api_.Get(kLeases, options_.lease, Subresource::kNone, Limits(stop));
  if (!lease.ok()) {
    if (lease.error().code != StatusCode::kNotFound) return lease.status();
    return Make(stop);
  }
  Observe(*lease);
  const bool is_ours = IsAsWritten(*lease);
  if (!is_ours) LeadNoMore();
  const bool is_taken =
      !leader_.empty() && !is_ours && clock_.Now() < Add(seen_at_, seen_duration_);
  if (is_taken) return OkStatus();
  began = clock_.Now();
  return Take(*lease, began, stop);
}

MonotonicTime LeaderElection::Step(const std::stop_token& stop) {
  last_error_ = TryLead(stop);
  const MonotonicTime now = clock_.Now();
  if (options_.leads != nullptr) options_.leads->Set(Term(now) ? 1 : 0);
  if (Term(now)) return Add(now, options_.retry_period);
  // Random pauses spread the candidates.
  const double more = std::uniform_real_distribution<double>(0, 0.2)(random_);
  return Add(now, options_.retry_period * (1 + more));
}

std::optional<int64_t> LeaderElection::Term(MonotonicTime now) const {
  const MutexLock lock(mu_);
  return now < leads_until_ ? term_ : std::nullopt;
}

MonotonicTime LeaderElection::LeadsUntil() const {
  const MutexLock lock(mu_);
  return term_ ? leads_until_ : MonotonicTime();
}

Status LeaderElection::Release() {
  {
    const MutexLock lock(mu_);
    term_.reset();
  }
  if (options_.leads != nullptr) options_.leads->Set(0);
  if (!ours_ && !may_be_ours_ && leader_ != options_.identity) return OkStatus();
  if (!ours_) {  // the last write had no reply: read the version
    ApiResult<Node> read = api_.Get(kLeases, options_.lease, Subresource::kNone, Limits({}));
    if (!read.ok() && read.error().code == StatusCode::kNotFound) return OkStatus();
    if (!read.ok()) return read.status();
    Observe(*read);
    if (!IsAsWritten(*read)) return OkStatus();
    ours_ = *std::move(read);
  }
  Node lease = *std::exchange(ours_, std::nullopt);
  SetAt(lease, {"spec", "holderIdentity"}, Node::String(""));
  SetAt(lease, {"spec", "leaseDurationSeconds"}, Node::Integer(1));
  // The version protects a lease that another candidate holds by now.
  return api_.Update(kLeases, lease, Subresource::kNone, {}, Limits({})).status();
}

}  // namespace janus::control
