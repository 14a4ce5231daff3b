#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "rpc/credentials/identity.h"

namespace janus {

// Why a peer was refused: the label `reason` of janus_connections_refused_total.
enum class Refusal {
  kHandshake,         // no TLS, no certificate, or the wrong key
  kUnknownAuthority,  // a certificate from an unknown authority
  kExpired,           // or not valid yet
  kIdentity,          // the authority may not issue for this name
  kAnotherService,    // from a different service
  kRole,              // from this service, but a role that may not call this
};
inline constexpr Refusal kRefusals[] = {Refusal::kHandshake,      Refusal::kUnknownAuthority,
                                        Refusal::kExpired,        Refusal::kIdentity,
                                        Refusal::kAnotherService, Refusal::kRole};
std::string_view ToString(Refusal refusal);

// The identity of a peer, or why it is refused.
struct PeerVerdict {
  bool is_accepted = false;
  Identity identity;
  Refusal refusal = Refusal::kUnknownAuthority;
  std::string message;
};

// Checks that a private key and its certificate match. InvalidArgument: which of the two cannot be
// read, or that they do not match.
Status CheckKeyPair(const std::string& certificate_pem, const std::string& key_pem);

// The validity period of a certificate (PEM, the first one counts); nothing: it cannot be read.
struct CertificateValidity {
  WallTime begin;
  WallTime end;
};
std::optional<CertificateValidity> ValidityOf(const std::string& certificate_pem);

// The trusted authorities (ca.crt, PEM). Each carries one URI and issues only for the identities
// directly below it. So an authority of the operator cannot name a member of a service, and vice
// versa. Immutable, thread-safe.
class TrustBundle {
 public:
  // InvalidArgument: the text has no certificate, or one that is unreadable, is no authority or
  // carries no URI.
  static Result<std::shared_ptr<const TrustBundle>> Parse(const std::string& pem);

  // Judges the owner of this certificate (PEM, the first one counts) at that time.
  PeerVerdict Judge(const std::string& certificate_pem, WallTime now) const;

  // The text that it was parsed from.
  const std::string& text() const { return text_; }

  ~TrustBundle();

 private:
  struct Store;
  TrustBundle(std::string text, std::unique_ptr<Store> store);
  const std::string text_;
  const std::unique_ptr<Store> store_;
};

}  // namespace janus
