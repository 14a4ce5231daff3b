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

// What a plugin gave: a token, a certificate with its key, or both.
struct ExecCredential {
  std::string token;
  std::string certificate;       // PEM
  std::string key;               // PEM
  std::optional<WallTime> ends;  // expiry according to the plugin
};

// Parses the ExecCredential that a plugin printed. `plugin` names it in messages. InvalidArgument:
// not an ExecCredential of the plugin's apiVersion, or it has neither a token nor a certificate
// with its key.
Result<ExecCredential> ReadExecCredential(const ExecPlugin& plugin, std::string_view printed);

// The value of KUBERNETES_EXEC_INFO for a plugin. REQUIRES: config.exec
std::string ExecInfo(const ClusterConfig& config, const std::string& ca);

// Runs a credential plugin on a separate thread, one run at a time. A caller waits no longer than
// its own limits; when it gives up, the run goes on for the other callers. The plugin runs again
// before its credentials expire, and callers use the old ones meanwhile. Thread-safe.
class ExecCredentials {
 public:
  // How long before expiry the plugin runs again: a quarter of their lifetime, but at most this.
  static constexpr Seconds kBeforeEnd{60};
  static constexpr Seconds kTimeout{60};  // of a run; then it is killed
  static constexpr Seconds kAfterFailure{10};

  // `config` and `clock` outlive this. REQUIRES: config.exec
  ExecCredentials(const ClusterConfig& config, const Clock& clock);
  // Kills a running plugin.
  ~ExecCredentials();

  // Returns when there are usable credentials: at once if the current ones have not expired,
  // otherwise after a run, which gets `ca`. If a run fails, the last good ones stay in use and the
  // plugin runs again after kAfterFailure. Fails only if there were never any, with the run's
  // error. DeadlineExceeded, Cancelled: `limits` ended the wait before the run ended.
  Status Await(const std::string& ca, const CallLimits& limits);
  // The last good ones; nothing: no run has succeeded yet.
  std::optional<ExecCredential> last() const;
  // The server refused them: the next Await runs the plugin again.
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
  WallTime since_ JANUS_GUARDED_BY(mu_);  // when last_ was set
  bool is_refused_ JANUS_GUARDED_BY(mu_) = false;
  Status error_ JANUS_GUARDED_BY(mu_);  // of the last run
  MonotonicTime ended_at_ JANUS_GUARDED_BY(mu_);
  uint64_t runs_ended_ JANUS_GUARDED_BY(mu_) = 0;
  bool is_running_ JANUS_GUARDED_BY(mu_) = false;
  std::jthread runner_ JANUS_GUARDED_BY(mu_);  // of the last run; locks mu_ before its end
};

}  // namespace janus::control
