#pragma once

#include <openssl/ssl.h>

#include <string>

#include "common/status.h"

namespace janus {

// Makes handshakes of this context fail unless the server's certificate is valid for `name`, a host
// name or an IP address. The roots are the context's. TLS 1.2 or later. A handshake that fails for
// the certificate writes the reason to `why_not`, which must outlive the context.
// FailedPrecondition: OpenSSL takes no such name.
//
// For cpp-httplib's clients: their own verification also trusts the system's roots. So it is off,
// and OpenSSL verifies during the handshake instead.
Status VerifyServer(SSL_CTX* context, const std::string& name, std::string* why_not);

}  // namespace janus
