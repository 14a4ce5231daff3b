#include "common/tls/verify_server.h"

#include <arpa/inet.h>
#include <openssl/x509v3.h>

namespace janus {

Status VerifyServer(SSL_CTX* context, const std::string& name, std::string* why_not) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_app_data(context, why_not);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, [](int ok, X509_STORE_CTX* store) {
    if (ok == 0) {
      auto* const ssl = static_cast<SSL*>(
          X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
      auto* const text = static_cast<std::string*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
      *text = X509_verify_cert_error_string(X509_STORE_CTX_get_error(store));
    }
    return ok;
  });
  X509_VERIFY_PARAM* const wanted = SSL_CTX_get0_param(context);
  in6_addr any;
  const bool is_address =
      inet_pton(AF_INET, name.c_str(), &any) == 1 || inet_pton(AF_INET6, name.c_str(), &any) == 1;
  const int set = is_address ? X509_VERIFY_PARAM_set1_ip_asc(wanted, name.c_str())
                             : X509_VERIFY_PARAM_set1_host(wanted, name.c_str(), name.size());
  return set == 1 ? OkStatus() : FailedPrecondition("'" + name + "' is no name to verify");
}

}  // namespace janus
