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
  std::string ns;                    // the operator's namespace, with the authorities' keys
  std::vector<std::string> watched;  // namespaces of the services to keep; empty: all
  std::string trust_domain = "cluster.local";
  Lifetimes lifetimes;
};

// A service with certificates to keep.
struct CertifiedService {
  ObjectKey key;
  std::string uid;
  // Of this service. The operator's next authority waits until all services have it in their
  // bundles.
  IssueCircumstances circumstances = {};
};

// The certificates of a service's roles, and when to check again.
struct ServiceCertificates {
  // May contain expired leaves. The key pairs are included if the Secret was just read or written;
  // otherwise use CertificateKeeper::Read.
  Issued issued;
  std::string bundle;  // ca.crt: authorities of the service and of the operator
  WallTime next;
  // A due write failed: everything here is the previous state.
  std::optional<ApiError> refused;
  bool is_first = false;  // there were none before
  bool can_call = true;   // the operator's certificate for calls is valid
};

// Credentials for calls to a service's workers, as text. Connections parse them, since there are
// fewer connections than services.
struct CallerCertificates {
  std::shared_ptr<const KeyPair> own;         // the operator's pair, for all services
  std::shared_ptr<const std::string> bundle;  // PEM of the service's authorities; for TrustBundle
  std::string authority;                      // of the service
  uint64_t version = 0;                       // dial again if it changes
};

// The authorities of services and of the operator. Each has one Secret in the operator's namespace
// with keys, certificates and what was issued. A write carries the version that was read. The
// roles' Secrets in the service's namespace follow from it, so they need not be read. Keys of
// services are in memory only while they are written or passed on.
//
// Thread-safe; one Keep at a time for each service.
class CertificateKeeper {
 public:
  explicit CertificateKeeper(CertificateOptions options) : options_(std::move(options)) {}

  // Creates and renews what is due. Fails with the API's error if there are no earlier certificates
  // to use. `refused` Aborted: another process has written, call again.
  ApiResult<ServiceCertificates> Keep(ObjectApi& api, const CertifiedService& service, WallTime now,
                                      const CallLimits& limits);
  // The result of the last Keep for that service, with all pairs. Aborted: the Secret has changed,
  // call Keep again.
  ApiResult<Issued> Read(ObjectApi& api, const std::string& uid, const CallLimits& limits);
  const Lifetimes& lifetimes() const { return options_.lifetimes; }
  // The service uses no TLS: its workers are called in plain text.
  void Without(const std::string& uid);

  // For calls to workers. Nothing: plain text. Unavailable: not known yet.
  Result<std::optional<CallerCertificates>> ForCalls(const std::string& uid) const;

  // Deletes the authorities of services for which `is_there` is false.
  ApiResult<std::monostate> Sweep(ObjectApi& api,
                                  const std::function<bool(const CertifiedService&)>& is_there,
                                  const CallLimits& limits);
  // Another process may have written: read everything again.
  void ForgetAll();

 private:
  // A Secret as last seen. The pairs take ten times the memory of the rest, so they are read again
  // when needed.
  struct Entry {
    bool keeps_pairs = false;  // true for the operator's Secret, which is used for calls
    Mutex mu;
    std::optional<Issued> issued JANUS_GUARDED_BY(mu);
    std::shared_ptr<const std::string> bundle JANUS_GUARDED_BY(mu);
    std::string version JANUS_GUARDED_BY(mu);  // empty: no such Secret
    // A write failed but may have been done: read it before the next write.
    bool is_doubtful JANUS_GUARDED_BY(mu) = false;
  };
  struct Kept {
    Issued issued;
    std::shared_ptr<const std::string> bundle;
    std::optional<ApiError> refused;  // why the due write failed; then the rest is the previous
                                      // state
    bool is_first = false;            // there were none before
  };
  std::shared_ptr<Entry> EntryOf(const std::string& name);
  // Stores the circumstances of that service; returns the combination over all, for the operator's
  // authority.
  IssueCircumstances OfAll(const std::string& uid, const IssueCircumstances& one);
  // True if calls to that service's workers already use these.
  bool IsKnown(const std::string& uid, const KeyPair& caller, const std::string& bundle) const;
  struct ReadSecret {
    Node secret;
    Issued issued;
  };
  // Reads the Secret. Aborted: it differs from `entry`; it will be read again.
  static ApiResult<ReadSecret> ReadAgain(ObjectApi& api, const ObjectKey& key, Entry& entry,
                                         const CallLimits& limits) JANUS_REQUIRES(entry.mu);
  // With pairs. No pairs: nothing was issued.
  static ApiResult<Issued> ReadAnew(ObjectApi& api, const ObjectKey& key, Entry& entry,
                                    const CallLimits& limits) JANUS_REQUIRES(entry.mu);
  static void Note(const Issued& issued, std::string version, Entry& entry)
      JANUS_REQUIRES(entry.mu);
  // Issues by the plan and writes the Secret, or creates it.
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
  std::map<std::string, std::shared_ptr<Entry>> entries_ JANUS_GUARDED_BY(mu_);  // by name of the
                                                                                 // Secret
  std::shared_ptr<const KeyPair> own_ JANUS_GUARDED_BY(mu_);                     // the newest
  std::map<std::string, std::optional<CallerCertificates>> callers_ JANUS_GUARDED_BY(mu_);
  std::map<std::string, IssueCircumstances> heard_ JANUS_GUARDED_BY(mu_);  // by service
  uint64_t versions_ JANUS_GUARDED_BY(mu_) = 0;
};

}  // namespace janus::control
