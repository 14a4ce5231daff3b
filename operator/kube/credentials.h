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

// Our own credentials and the authorities that we trust, at one moment.
struct Credentials {
  std::string ca;  // PEM; empty: the system's roots
  std::string certificate;
  std::string key;
  std::string token;  // without white space around it; empty: none

  // Raised whenever something above changes.
  uint64_t version = 0;
  // Raised whenever ca, certificate or key change: a connection made before is not used again.
  uint64_t tls_version = 0;
};

// Keeps credentials fresh without a restart: files are read again when they are older than ten
// seconds to us (the kubelet replaces a token long before it ends, a CA is rotated under us), a
// plugin is run again ahead of the end of what it gave, and both at once after a refusal. When
// reading again fails the last good ones stay in use; the server judges them. Thread-safe; Get
// blocks while files are read, and within its limits while there is nothing of a plugin's to use.
class CredentialSource {
 public:
  static constexpr Seconds kFileAge{10};

  // `clock` outlives this.
  CredentialSource(ClusterConfig config, const Clock& clock);

  // Errors, when there were never any: the file's or the plugin's, with the configuration's origin.
  // DeadlineExceeded, Cancelled: a plugin has given nothing within `limits`.
  Result<Credentials> Get(const CallLimits& limits);

  // The server refused those of `version` (401), or they do not trust it: the next Get reads them
  // again, unless that has happened since.
  void Refuse(uint64_t version);

  const ClusterConfig& config() const { return config_; }

 private:
  // As files_, unless what is there is recent.
  Status ReadFiles() JANUS_REQUIRES(mu_);
  // What files and the plugin say now, as last_. REQUIRES: both have said something.
  const Credentials& Compose() JANUS_REQUIRES(mu_);

  const ClusterConfig config_;
  const Clock& clock_;

  std::optional<ExecCredentials> exec_;  // as the configuration has one

  Mutex mu_;
  std::optional<Credentials> files_ JANUS_GUARDED_BY(mu_);  // and what stands in the configuration
  MonotonicTime read_at_ JANUS_GUARDED_BY(mu_);
  bool is_refused_ JANUS_GUARDED_BY(mu_) = false;
  std::optional<Credentials> last_ JANUS_GUARDED_BY(mu_);
};

}  // namespace janus::control
