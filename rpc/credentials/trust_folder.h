#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>

#include "common/clock.h"
#include "common/status.h"
#include "rpc/credentials/peers.h"

namespace janus {

// The credentials of a gateway or worker, from a folder as Kubernetes mounts a Secret: tls.crt and
// tls.key (its own certificate and key), ca.crt (the authorities it trusts). Files that are
// replaced, all at once as Kubernetes does it, count from the next handshake on (the key pair
// within a second). Which service it is of, and so whom it takes, its own certificate says.
// Thread-safe.
class TrustFolder {
 public:
  // Errors name the file, what is wrong with it and what to do: one that is missing or cannot be
  // read, a key that is not the certificate's, a certificate that has expired or that ca.crt does
  // not know. `clock` and `refusals` outlive all credentials.
  static Result<std::shared_ptr<const TrustFolder>> Open(const std::string& folder,
                                                         const Clock& clock,
                                                         RefusalCounts& refusals);

  const Identity& identity() const { return identity_; }
  // Of the certificate that is in the folder now; nothing: it cannot be read.
  std::optional<CertificateValidity> Validity() const;

  // Takes connections of the same service and of operators, and holds their calls to CallRules().
  std::shared_ptr<grpc::ServerCredentials> Server() const;
  // To workers of the same service.
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
