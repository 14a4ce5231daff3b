#pragma once

#include "common/clock.h"
#include "operator/certificates/certificate_keeper.h"
#include "operator/members/connections.h"

namespace janus::control {

// Mutual TLS with the workers of services that use it: under the operator's certificate, to who
// shows one of the service's authority. Of a service that `certificates` does not know nobody is
// taken. Both outlive the result and all connections.
Connections::SecurityOf MemberSecurity(const CertificateKeeper& certificates, const Clock& clock);

}  // namespace janus::control
