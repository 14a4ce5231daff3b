#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/clock.h"
#include "common/mutex.h"
#include "common/status.h"
#include "operator/kube/cluster_config.h"
#include "operator/kube/exec_credentials.h"
#include "operator/kube/object_api.h"

namespace janus::control {

// Our own credentials and the authorities that we trust, at one point in time.
struct Credentials {
  std::string ca;  // PEM; empty: the system's roots
  std::string certificate;
  std::string key;
  std::string token;  // trimmed; empty: none

  // Incremented whenever a field above changes.
  uint64_t version = 0;
  // Incremented whenever ca, certificate or key change: older connections are not used again.
  uint64_t tls_version = 0;
};

// Keeps credentials fresh without a restart. It reads files again when its copy is older than ten
// seconds, since the kubelet replaces tokens and operators rotate CAs. It runs a plugin again
// before its credentials expire. After a refusal it does both at once. If a refresh fails, it keeps
// the last good credentials and leaves the decision to the server. Thread-safe. Get blocks while it
// reads files, and within its limits while a plugin has not yet given usable credentials.
class CredentialSource {
 public:
  static constexpr Seconds kFileAge{10};

  // `clock` outlives this.
  CredentialSource(ClusterConfig config, const Clock& clock);

  // Fails only if there were never any credentials: with the error of the file or plugin, and the
  // configuration's origin. DeadlineExceeded, Cancelled: the plugin gave nothing within `limits`.
  Result<Credentials> Get(const CallLimits& limits);

  // The server refused the credentials of `version` (401), or we could not trust the server with
  // them: the next Get reads them again, unless that has happened since.
  void Refuse(uint64_t version);

  const ClusterConfig& config() const { return config_; }

 private:
  // Refreshes files_ if it is too old.
  Status ReadFiles() JANUS_REQUIRES(mu_);
  // Combines files and plugin output into last_. REQUIRES: both are available.
  const Credentials& Compose() JANUS_REQUIRES(mu_);

  const ClusterConfig config_;
  const Clock& clock_;

  std::optional<ExecCredentials> exec_;  // set if the configuration has a plugin

  Mutex mu_;
  std::optional<Credentials> files_ JANUS_GUARDED_BY(mu_);  // with text from the configuration
  MonotonicTime read_at_ JANUS_GUARDED_BY(mu_);
  bool is_refused_ JANUS_GUARDED_BY(mu_) = false;
  std::optional<Credentials> last_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::control
