#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>

#include "common/clock.h"
#include "common/mutex.h"
#include "common/status.h"
#include "operator/kube/cluster_config.h"

namespace janus::control {

// Who we are and whom we trust, as of one moment.
struct Credentials {
  std::string ca;  // PEM; empty: the system's roots
  std::string certificate;
  std::string key;
  std::string token;             // without white space around it; empty: none
  std::optional<WallTime> ends;  // what a plugin said of how long it lasts

  // Raised whenever something above changes.
  uint64_t version = 0;
  // Raised whenever ca, certificate or key change: a connection made before is not used again.
  uint64_t tls_version = 0;
};

// What an ExecCredential on a plugin's stdout says: token, certificate, key and end. `plugin` names
// it in messages. InvalidArgument: no ExecCredential of its apiVersion, neither a token nor a
// certificate with its key.
Result<Credentials> ReadExecCredential(const ExecPlugin& plugin, std::string_view printed);

// What a plugin is told in KUBERNETES_EXEC_INFO.
std::string ExecInfo(const ClusterConfig& config, const std::string& ca);

// Keeps credentials fresh without a restart: files are read again when they are older than ten
// seconds to us (the kubelet replaces a token long before it ends, a CA is rotated under us), a
// plugin is run again shortly before what it gave ends, and both at once after a refusal. When
// reading again fails the last good ones stay in use; the server judges them. Thread-safe; Get
// blocks while files are read or the plugin runs.
class CredentialSource {
 public:
  static constexpr Seconds kFileAge{10};
  static constexpr Seconds kBeforeEnd{10};
  static constexpr Seconds kPluginTimeout{60};

  // `clock` outlives this.
  CredentialSource(ClusterConfig config, const Clock& clock);

  // Errors, when there were never any: the file's or the plugin's, with the configuration's origin.
  Result<Credentials> Get(const std::stop_token& stop);

  // The server did not take those of `version` (401), or was not who they trust: the next Get looks
  // anew, unless that has happened since.
  void Refuse(uint64_t version);

  const ClusterConfig& config() const { return config_; }

 private:
  Result<Credentials> Read(const std::stop_token& stop) JANUS_REQUIRES(mu_);
  bool IsFresh() const JANUS_REQUIRES(mu_);
  bool IsPluginFresh() const JANUS_REQUIRES(mu_);

  const ClusterConfig config_;
  const Clock& clock_;

  Mutex mu_;
  std::optional<Credentials> last_ JANUS_GUARDED_BY(mu_);
  MonotonicTime read_at_ JANUS_GUARDED_BY(mu_);
  bool is_failing_ JANUS_GUARDED_BY(mu_) = false;  // reading at read_at_ did not work
  bool is_refused_ JANUS_GUARDED_BY(mu_) = false;
};

}  // namespace janus::control
