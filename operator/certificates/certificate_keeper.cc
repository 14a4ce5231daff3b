#include "operator/certificates/certificate_keeper.h"

#include <algorithm>
#include <utility>

#include "common/base64.h"
#include "operator/kube/resource.h"

namespace janus::control {
namespace {

const Resource kAuthoritySecrets{"", "v1", "secrets", "Secret"};

// Labels to find the authority of a deleted service.
constexpr std::string_view kAuthorityLabel = "serving.janus.dev/authority";
constexpr std::string_view kOfUid = "serving.janus.dev/service-uid";
constexpr std::string_view kOfNamespace = "serving.janus.dev/service-namespace";
constexpr std::string_view kOfService = "serving.janus.dev/service";
constexpr std::string_view kIssuedField = "issued";
constexpr const char* kOperatorSecret = "janus-operator-authority";

std::string SecretOf(const std::string& uid) {
  return "janus-authority-" + uid;
}

Node NewSecret(const ObjectKey& key, const std::map<std::string, std::string>& labels) {
  Node out = Node::Map();
  SetAt(out, {"apiVersion"}, Node::String("v1"));
  SetAt(out, {"kind"}, Node::String("Secret"));
  SetAt(out, {"metadata", "name"}, Node::String(key.name));
  SetAt(out, {"metadata", "namespace"}, Node::String(key.namespace_));
  SetAt(out, {"metadata", "labels", "app.kubernetes.io/managed-by"},
        Node::String("janus-operator"));
  for (const auto& [label, value] : labels) {
    SetAt(out, {"metadata", "labels", label}, Node::String(value));
  }
  return out;
}

Result<Issued> IssuedIn(const Node& secret) {
  const Result<std::string> text = DecodeBase64(TextAt(secret, {"data", kIssuedField}));
  Result<Issued> issued = text.ok() ? ReadIssued(*text) : text.status();
  if (issued.ok()) return issued;
  return FailedPrecondition("Secret " + KeyOf(secret).ToString() + ": " +
                            issued.status().message() +
                            "; delete it and everything is issued anew");
}

}  // namespace

std::shared_ptr<CertificateKeeper::Entry> CertificateKeeper::EntryOf(const std::string& name) {
  const MutexLock lock(mu_);
  std::shared_ptr<Entry>& entry = entries_[name];
  if (entry == nullptr) {
    entry = std::make_shared<Entry>();
    entry->keeps_pairs = name == kOperatorSecret;
  }
  return entry;
}

void CertificateKeeper::Note(const Issued& issued, std::string version, Entry& entry) {
  entry.issued = entry.keeps_pairs ? issued : issued.WithoutPairs();
  entry.bundle = std::make_shared<const std::string>(issued.Bundle());
  entry.version = std::move(version);
  entry.is_doubtful = false;
}

ApiResult<Issued> CertificateKeeper::ReadAnew(ObjectApi& api, const ObjectKey& key, Entry& entry,
                                              const CallLimits& limits) {
  ApiResult<Node> there = api.Get(kAuthoritySecrets, key, Subresource::kNone, limits);
  if (!there.ok() && there.error().code != StatusCode::kNotFound) return std::move(there).error();
  Result<Issued> issued = there.ok() ? IssuedIn(*there) : Issued();
  if (!issued.ok()) return LocalError(issued.status());
  Note(*issued, there.ok() ? std::string(ResourceVersionOf(*there)) : "", entry);
  return *std::move(issued);
}

ApiResult<CertificateKeeper::ReadSecret> CertificateKeeper::ReadAgain(ObjectApi& api,
                                                                      const ObjectKey& key,
                                                                      Entry& entry,
                                                                      const CallLimits& limits) {
  ApiResult<Node> there = api.Get(kAuthoritySecrets, key, Subresource::kNone, limits);
  const bool is_other = there.ok() ? ResourceVersionOf(*there) != entry.version
                                   : there.error().code == StatusCode::kNotFound;
  if (is_other) {
    entry.is_doubtful = true;
    return LocalError(Aborted("Secret " + key.ToString() + ": another process has written it"));
  }
  if (!there.ok()) return std::move(there).error();
  Result<Issued> issued = IssuedIn(*there);
  if (!issued.ok()) return LocalError(issued.status());
  return ReadSecret{*std::move(there), *std::move(issued)};
}

ApiResult<Issued> CertificateKeeper::IssueAndWrite(ObjectApi& api, const ObjectKey& key,
                                                   const IssuePlan& plan, const std::string& uri,
                                                   const std::map<std::string, std::string>& labels,
                                                   WallTime now, Entry& entry,
                                                   const CallLimits& limits) {
  const bool is_new = entry.version.empty();
  ReadSecret from{NewSecret(key, labels), {}};
  if (!is_new) {
    ApiResult<ReadSecret> there = ReadAgain(api, key, entry, limits);
    if (!there.ok()) return std::move(there).error();
    from = *std::move(there);
  }
  Result<Issued> next = Issue(std::move(from.issued), plan, uri, options_.lifetimes, now);
  if (!next.ok()) return LocalError(next.status());
  SetAt(from.secret, {"data", kIssuedField}, Node::String(EncodeBase64(WriteIssued(*next))));
  const ApiResult<Node> written =
      is_new ? api.Create(kAuthoritySecrets, from.secret, {}, limits)
             : api.Update(kAuthoritySecrets, from.secret, Subresource::kNone, {}, limits);
  if (!written.ok()) {
    entry.is_doubtful = true;
    return written.error();
  }
  Note(*next, std::string(ResourceVersionOf(*written)), entry);
  return *std::move(next);
}

ApiResult<CertificateKeeper::Kept> CertificateKeeper::KeepOne(
    ObjectApi& api, const std::string& name, const std::string& uri,
    const std::map<std::string, std::string>& labels, const std::vector<PeerRole>& roles,
    const IssueCircumstances& circumstances, WallTime now, const CallLimits& limits) {
  const std::shared_ptr<Entry> entry = EntryOf(name);
  const MutexLock lock(entry->mu);
  const ObjectKey key{options_.ns, name};
  const auto kept = [&](std::optional<ApiError> refused) JANUS_REQUIRES(entry->mu) {
    return Kept{*entry->issued, entry->bundle, std::move(refused), false};
  };
  Kept out;
  if (!entry->issued || entry->is_doubtful) {
    ApiResult<Issued> read = ReadAnew(api, key, *entry, limits);
    if (!read.ok()) {
      if (!entry->issued) return std::move(read).error();
      return kept(std::move(read).error());
    }
    out = {*std::move(read), entry->bundle, std::nullopt, false};
  } else {
    out = kept(std::nullopt);
  }
  const IssuePlan plan = PlanIssue(out.issued, roles, options_.lifetimes, now, circumstances);
  if (plan.is_empty()) return out;
  const bool is_first = entry->version.empty();
  ApiResult<Issued> next = IssueAndWrite(api, key, plan, uri, labels, now, *entry, limits);
  if (!next.ok()) {
    out.refused = std::move(next).error();
    return out;
  }
  return Kept{*std::move(next), entry->bundle, std::nullopt, is_first};
}

ApiResult<Issued> CertificateKeeper::Read(ObjectApi& api, const std::string& uid,
                                          const CallLimits& limits) {
  const std::string name = SecretOf(uid);
  const std::shared_ptr<Entry> entry = EntryOf(name);
  const MutexLock lock(entry->mu);
  ApiResult<ReadSecret> read = ReadAgain(api, {options_.ns, name}, *entry, limits);
  if (!read.ok()) return std::move(read).error();
  return std::move(read->issued);
}

ApiResult<ServiceCertificates> CertificateKeeper::Keep(ObjectApi& api,
                                                       const CertifiedService& service,
                                                       WallTime now, const CallLimits& limits) {
  ApiResult<Kept> own =
      KeepOne(api, kOperatorSecret, OperatorAuthority(options_.trust_domain, options_.ns),
              {{std::string(kAuthorityLabel), "operator"}}, {PeerRole::kOperator},
              OfAll(service.uid, service.circumstances), now, limits);
  if (!own.ok()) return std::move(own).error();
  const IssuedLeaf* const caller = own->issued.Find(PeerRole::kOperator);
  if (caller == nullptr) return *std::move(own->refused);
  const std::string authority =
      ServiceAuthority(options_.trust_domain, service.key.namespace_, service.key.name);
  ApiResult<Kept> kept = KeepOne(api, SecretOf(service.uid), authority,
                                 {{std::string(kAuthorityLabel), "service"},
                                  {std::string(kOfUid), service.uid},
                                  {std::string(kOfNamespace), service.key.namespace_},
                                  {std::string(kOfService), service.key.name}},
                                 {PeerRole::kGateway, PeerRole::kAttention, PeerRole::kExperts},
                                 service.circumstances, now, limits);
  if (!kept.ok()) return std::move(kept).error();
  Issued& issued = kept->issued;
  if (issued.leaves.empty()) return *std::move(kept->refused);

  // Connections verify peers with the newest bundle. A new connection takes only a few
  // milliseconds, so every change counts as a new version.
  if (!IsKnown(service.uid, caller->pair, *kept->bundle)) {
    const Status bundle = TrustBundle::Parse(*kept->bundle).status();
    if (!bundle.ok()) return LocalError(bundle);
    const MutexLock lock(mu_);
    if (own_ == nullptr || *own_ != caller->pair) {
      own_ = std::make_shared<const KeyPair>(caller->pair);
    }
    callers_[service.uid] = CallerCertificates{own_, kept->bundle, authority, ++versions_};
  }
  ServiceCertificates out;
  out.bundle = *kept->bundle + *own->bundle;
  out.next = std::min(NextIssue(issued, options_.lifetimes, now),
                      NextIssue(own->issued, options_.lifetimes, now));
  out.refused = own->refused ? std::move(own->refused) : std::move(kept->refused);
  out.is_first = kept->is_first;
  out.can_call = caller->expires > now;
  out.issued = std::move(issued);
  return out;
}

IssueCircumstances CertificateKeeper::OfAll(const std::string& uid, const IssueCircumstances& one) {
  const MutexLock lock(mu_);
  heard_[uid] = one;
  IssueCircumstances all;
  for (const auto& [service, its] : heard_) {
    all.is_heard = all.is_heard && its.is_heard;
    all.is_shown = all.is_shown && its.is_shown;
  }
  return all;
}

bool CertificateKeeper::IsKnown(const std::string& uid, const KeyPair& caller,
                                const std::string& bundle) const {
  const MutexLock lock(mu_);
  const auto found = callers_.find(uid);
  return found != callers_.end() && found->second && *found->second->own == caller &&
         *found->second->bundle == bundle;
}

void CertificateKeeper::Without(const std::string& uid) {
  const MutexLock lock(mu_);
  callers_[uid] = std::nullopt;
  heard_.erase(uid);
}

Result<std::optional<CallerCertificates>> CertificateKeeper::ForCalls(
    const std::string& uid) const {
  const MutexLock lock(mu_);
  const auto found = callers_.find(uid);
  if (found == callers_.end()) {
    return Unavailable("the certificates of the service are not there yet");
  }
  return found->second;
}

ApiResult<std::monostate> CertificateKeeper::Sweep(
    ObjectApi& api, const std::function<bool(const CertifiedService&)>& is_there,
    const CallLimits& limits) {
  ListOptions options;
  options.selection.namespace_ = options_.ns;
  options.selection.label_selector = std::string(kAuthorityLabel) + "=service";
  if (!options_.watched.empty()) {
    std::string names;
    for (const std::string& ns : options_.watched) names += (names.empty() ? "" : ",") + ns;
    options.selection.label_selector += "," + std::string(kOfNamespace) + " in (" + names + ")";
  }
  do {
    ApiResult<ObjectList> list = api.List(kAuthoritySecrets, options, limits);
    if (!list.ok()) return std::move(list).error();
    for (const Node& secret : list->items) {
      const CertifiedService service{
          {std::string(TextAt(secret, {"metadata", "labels", kOfNamespace})),
           std::string(TextAt(secret, {"metadata", "labels", kOfService}))},
          std::string(TextAt(secret, {"metadata", "labels", kOfUid}))};
      if (is_there(service)) continue;
      DeleteOptions only_this;
      only_this.uid = std::string(UidOf(secret));
      ApiResult<Node> deleted = api.Delete(kAuthoritySecrets, KeyOf(secret), only_this, limits);
      if (!deleted.ok() && deleted.error().code != StatusCode::kNotFound) {
        return std::move(deleted).error();
      }
      const MutexLock lock(mu_);
      entries_.erase(KeyOf(secret).name);
      callers_.erase(service.uid);
      heard_.erase(service.uid);
    }
    options.continue_token = list->continue_token;
  } while (!options.continue_token.empty());
  return std::monostate();
}

void CertificateKeeper::ForgetAll() {
  const MutexLock lock(mu_);
  entries_.clear();
}

}  // namespace janus::control
