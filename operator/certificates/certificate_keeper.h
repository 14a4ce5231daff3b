#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/clock.h"
#include "common/mutex.h"
#include "operator/certificates/issue_plan.h"
#include "operator/kube/object_api.h"
#include "rpc/credentials/certificate.h"

namespace janus::control {

struct CertificateOptions {
  std::string ns;                    // the operator's own: where the keys of authorities lie
  std::vector<std::string> watched;  // the namespaces whose services are kept; empty: all
  std::string trust_domain = "cluster.local";
  Lifetimes lifetimes;
};

// A service as its authority knows it.
struct CertifiedService {
  ObjectKey key;
  std::string uid;
  // IssueCircumstances', of this service. The operator's own next authority waits until all
  // services have heard of it.
  IssueCircumstances circumstances = {};
};

// What the roles of a service are given, and when to look again.
struct ServiceCertificates {
  // Leaves that have run out may be among them. Their pairs are there when the Secret was read or
  // written just now; else CertificateKeeper::Read has them.
  Issued issued;
  std::string bundle;  // ca.crt: the service's authorities and the operator's
  WallTime next;
  // Something was due and could not be written: all this is what there was before.
  std::optional<ApiError> refused;
  bool is_first = false;  // there were none before
  bool can_call = true;   // the certificate under which the operator calls is valid
};

// With what the operator calls a service's workers. The texts alone: what is read from them belongs
// to connections, of which there are fewer than services.
struct CallerCertificates {
  std::shared_ptr<const KeyPair> own;         // one for all services
  std::shared_ptr<const std::string> bundle;  // PEM of its authorities; TrustBundle reads it
  std::string authority;                      // of the service
  uint64_t version = 0;                       // another one: dial anew
};

// The authorities of services and the operator's own: one Secret each in the operator's namespace,
// that holds keys, certificates and what was issued, written with the version it was read at. What
// a role's Secret in the service's namespace holds follows from it, so that nothing there need ever
// be read. Services' keys are in memory while they are written or handed out, and no longer.
//
// Thread-safe; of one service one Keep runs at a time.
class CertificateKeeper {
 public:
  explicit CertificateKeeper(CertificateOptions options) : options_(std::move(options)) {}

  // Makes and renews what is due. Errors are the API's, where there is nothing to go on with.
  // `refused` Aborted: another process has written, look again.
  ApiResult<ServiceCertificates> Keep(ObjectApi& api, const CertifiedService& service, WallTime now,
                                      const CallLimits& limits);
  // What Keep has told of that service last, with all pairs. Aborted: that is not what is there any
  // more, look again.
  ApiResult<Issued> Read(ObjectApi& api, const std::string& uid, const CallLimits& limits);
  const Lifetimes& lifetimes() const { return options_.lifetimes; }
  // The service goes without: its workers are called in plain text.
  void Without(const std::string& uid);

  // For calls. Nothing: in plain text. Unavailable: not known yet.
  Result<std::optional<CallerCertificates>> ForCalls(const std::string& uid) const;

  // Deletes the authorities of services that `is_there` does not know.
  ApiResult<std::monostate> Sweep(ObjectApi& api,
                                  const std::function<bool(const CertifiedService&)>& is_there,
                                  const CallLimits& limits);
  // Another may have written meanwhile: everything is read again.
  void ForgetAll();

 private:
  // A Secret as it was last seen. The texts take ten times the rest: they are read again before
  // they are needed.
  struct Entry {
    bool keeps_pairs = false;  // the operator's own does: it calls with them
    Mutex mu;
    std::optional<Issued> issued JANUS_GUARDED_BY(mu);
    std::shared_ptr<const std::string> bundle JANUS_GUARDED_BY(mu);
    std::string version JANUS_GUARDED_BY(mu);  // empty: there is none
    // A write of it failed, and may have been done: it is read before it is written again.
    bool is_doubtful JANUS_GUARDED_BY(mu) = false;
  };
  struct Kept {
    Issued issued;
    std::shared_ptr<const std::string> bundle;
    std::optional<ApiError> refused;  // what is due; the others are what there was before
    bool is_first = false;            // there were none
  };
  std::shared_ptr<Entry> EntryOf(const std::string& name);
  // Notes them of that service. Those of all, for the operator's authority.
  IssueCircumstances OfAll(const std::string& uid, const IssueCircumstances& one);
  // Whether that service's workers are called with these already.
  bool IsKnown(const std::string& uid, const KeyPair& caller, const std::string& bundle) const;
  struct ReadSecret {
    Node secret;
    Issued issued;
  };
  // What is there. Aborted: it is not what `entry` knows; it will be read anew.
  static ApiResult<ReadSecret> ReadAgain(ObjectApi& api, const ObjectKey& key, Entry& entry,
                                         const CallLimits& limits) JANUS_REQUIRES(entry.mu);
  // With pairs; none are there: nothing was issued.
  static ApiResult<Issued> ReadAnew(ObjectApi& api, const ObjectKey& key, Entry& entry,
                                    const CallLimits& limits) JANUS_REQUIRES(entry.mu);
  static void Note(const Issued& issued, std::string version, Entry& entry)
      JANUS_REQUIRES(entry.mu);
  // Writes that over what is there, or makes it.
  ApiResult<Issued> IssueAndWrite(ObjectApi& api, const ObjectKey& key, const IssuePlan& plan,
                                  const std::string& uri,
                                  const std::map<std::string, std::string>& labels, WallTime now,
                                  Entry& entry, const CallLimits& limits) JANUS_REQUIRES(entry.mu);
  ApiResult<Kept> KeepOne(ObjectApi& api, const std::string& name, const std::string& uri,
                          const std::map<std::string, std::string>& labels,
                          const std::vector<PeerRole>& roles,
                          const IssueCircumstances& circumstances, WallTime now,
                          const CallLimits& limits);

  const CertificateOptions options_;
  mutable Mutex mu_;
  std::map<std::string, std::shared_ptr<Entry>> entries_ JANUS_GUARDED_BY(mu_);  // by Secret
  std::shared_ptr<const KeyPair> own_ JANUS_GUARDED_BY(mu_);                     // the newest
  std::map<std::string, std::optional<CallerCertificates>> callers_ JANUS_GUARDED_BY(mu_);
  std::map<std::string, IssueCircumstances> heard_ JANUS_GUARDED_BY(mu_);  // by service
  uint64_t versions_ JANUS_GUARDED_BY(mu_) = 0;
};

}  // namespace janus::control
