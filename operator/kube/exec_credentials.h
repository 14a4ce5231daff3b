#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "common/clock.h"
#include "common/mutex.h"
#include "common/status.h"
#include "operator/kube/cluster_config.h"
#include "operator/kube/object_api.h"

namespace janus::control {

// What a plugin gave: a token, or a certificate with its key, or both.
struct ExecCredential {
  std::string token;
  std::string certificate;       // PEM
  std::string key;               // PEM
  std::optional<WallTime> ends;  // what it said of how long they last
};

// What an ExecCredential on a plugin's stdout says. `plugin` names it in messages.
// InvalidArgument: no ExecCredential of its apiVersion, neither a token nor a certificate with its
// key.
Result<ExecCredential> ReadExecCredential(const ExecPlugin& plugin, std::string_view printed);

// The value of KUBERNETES_EXEC_INFO for a plugin. REQUIRES: config.exec
std::string ExecInfo(const ClusterConfig& config, const std::string& ca);

// Runs a plugin, never twice at a time and on a thread of its own: no call waits for it longer than
// its own limits allow, and one that gives up does not end it for the others. It is run ahead of
// the end of what it gave, which is used meanwhile. Thread-safe.
class ExecCredentials {
 public:
  // How long before their end new ones are asked for: a quarter of their life, at most this.
  static constexpr Seconds kBeforeEnd{60};
  static constexpr Seconds kTimeout{60};  // of a run, which is killed then
  static constexpr Seconds kAfterFailure{10};

  // `config` and `clock` outlive this. REQUIRES: config.exec
  ExecCredentials(const ClusterConfig& config, const Clock& clock);
  // Ends a run that is under way.
  ~ExecCredentials();

  // Returns when there are some that may be used: at once while those that are there have not
  // ended, else after a run; the plugin gets `ca`. When a run fails, the last good ones stay in
  // use, and it is run again after kAfterFailure; the server judges them. Errors, when there were
  // never any: the run's. DeadlineExceeded, Cancelled: `limits` came before its end.
  Status Await(const std::string& ca, const CallLimits& limits);
  // The last good ones; nothing: there were never any.
  std::optional<ExecCredential> last() const;
  // The server did not take them: the next Await looks anew.
  void Refuse();

 private:
  bool MayBeUsed(WallTime now) const JANUS_REQUIRES(mu_);
  bool IsTimeToRun(WallTime now) const JANUS_REQUIRES(mu_);
  void Start(const std::string& ca) JANUS_REQUIRES(mu_);
  void Ended(Result<ExecCredential> ran);

  const ClusterConfig& config_;
  const Clock& clock_;

  mutable Mutex mu_;
  CondVar changed_;
  std::optional<ExecCredential> last_ JANUS_GUARDED_BY(mu_);
  WallTime since_ JANUS_GUARDED_BY(mu_);  // when last_ came
  bool is_refused_ JANUS_GUARDED_BY(mu_) = false;
  Status error_ JANUS_GUARDED_BY(mu_);  // of the last run
  MonotonicTime ended_at_ JANUS_GUARDED_BY(mu_);
  uint64_t runs_ended_ JANUS_GUARDED_BY(mu_) = 0;
  bool is_running_ JANUS_GUARDED_BY(mu_) = false;
  std::jthread runner_ JANUS_GUARDED_BY(mu_);  // of the last run; locks mu_ before its end
};

}  // namespace janus::control
