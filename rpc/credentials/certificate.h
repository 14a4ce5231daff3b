#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "rpc/credentials/identity.h"

namespace janus {

// Why somebody was not let in: the label `reason` of janus_connections_refused_total.
enum class Refusal {
  kHandshake,         // no TLS, no certificate, or not the key of it
  kUnknownAuthority,  // a certificate that none of ours has issued
  kExpired,           // or not valid yet
  kIdentity,          // a certificate of ours that names nobody it may name
  kAnotherService,    // of a service that is not this one
  kRole,              // of this service, but a role that may not call this
};
inline constexpr Refusal kRefusals[] = {Refusal::kHandshake,      Refusal::kUnknownAuthority,
                                        Refusal::kExpired,        Refusal::kIdentity,
                                        Refusal::kAnotherService, Refusal::kRole};
std::string_view ToString(Refusal refusal);

// Who a peer is, or why it is refused.
struct PeerVerdict {
  bool is_accepted = false;
  Identity identity;
  Refusal refusal = Refusal::kUnknownAuthority;
  std::string message;
};

// A private key and its certificate fit each other. InvalidArgument: which of the two cannot be
// read, or that they do not fit.
Status CheckKeyPair(const std::string& certificate_pem, const std::string& key_pem);

// When a certificate (PEM, the first one) begins and ceases to be valid; nothing: it cannot be
// read.
struct CertificateValidity {
  WallTime begin;
  WallTime end;
};
std::optional<CertificateValidity> ValidityOf(const std::string& certificate_pem);

// The authorities whose certificates are taken (ca.crt, PEM). Each carries one URI and issues for
// the identities directly below it, so that an authority of the operator cannot name a member of a
// service, nor one of a service the operator. Immutable, thread-safe.
class TrustBundle {
 public:
  // InvalidArgument: no certificate, one that cannot be read, is no authority or carries no URI.
  static Result<std::shared_ptr<const TrustBundle>> Parse(const std::string& pem);

  // Whose certificate (PEM, the first one counts) this is, at that time.
  PeerVerdict Judge(const std::string& certificate_pem, WallTime now) const;

  // What it was read from.
  const std::string& text() const { return text_; }

  ~TrustBundle();

 private:
  struct Store;
  TrustBundle(std::string text, std::unique_ptr<Store> store);
  const std::string text_;
  const std::unique_ptr<Store> store_;
};

}  // namespace janus
