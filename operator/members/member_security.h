#pragma once

#include "common/clock.h"
#include "operator/certificates/certificate_keeper.h"
#include "operator/members/connections.h"

namespace janus::control {

// Mutual TLS with the workers of services that use it. The operator shows its certificate and
// accepts only peers with a certificate of the service's authority. For a service that
// `certificates` does not know, it accepts no peer. Both arguments outlive the result and all
// connections.
Connections::SecurityOf MemberSecurity(const CertificateKeeper& certificates, const Clock& clock);

}  // namespace janus::control
