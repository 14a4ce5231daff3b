#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>

#include "common/clock.h"
#include "common/status.h"
#include "rpc/credentials/mutual_tls.h"

namespace janus {

// The credentials of a gateway or worker, from a folder that Kubernetes mounts for a Secret:
// tls.crt and tls.key (its own certificate and key), ca.crt (the authorities that it trusts).
// Kubernetes replaces all files at once; the new ones count from the next handshake on (the key
// pair within a second). Its own certificate names its service, and so decides which peers it
// accepts. Thread-safe.
class TrustFolder {
 public:
  // Errors name the file, what is wrong with it and what to do: it is missing or unreadable, the
  // key does not match the certificate, or the certificate has expired or is unknown to ca.crt.
  // `clock` and `refusals` outlive all credentials.
  static Result<std::shared_ptr<const TrustFolder>> Open(const std::string& folder,
                                                         const Clock& clock,
                                                         RefusalCounts& refusals);

  const Identity& identity() const { return identity_; }
  // Of the certificate that is in the folder now; nothing: it cannot be read.
  std::optional<CertificateValidity> Validity() const;

  // For a server: accepts connections of the same service and of operators, and checks their calls
  // against CallRules().
  std::shared_ptr<grpc::ServerCredentials> Server() const;
  // For channels to workers of the same service.
  std::shared_ptr<grpc::ChannelCredentials> Channel() const;

 private:
  class Bundle;
  TrustFolder() = default;
  PeerRules Rules(std::vector<PeerRole> roles) const;

  std::string certificate_path_;
  Identity identity_;
  std::shared_ptr<Bundle> bundle_;
  std::shared_ptr<grpc::experimental::CertificateProviderInterface> own_;
  const Clock* clock_ = nullptr;
  RefusalCounts* refusals_ = nullptr;
};

}  // namespace janus
