#include "rpc/credentials/mutual_tls.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <utility>

#include "common/connections_refused.h"

namespace janus {
namespace {

namespace tls = grpc::experimental;

// Runs after the handshake, which has proved that the peer holds its certificate's key.
class Verifier final : public tls::ExternalCertificateVerifier {
 public:
  explicit Verifier(PeerRules rules) : rules_(std::move(rules)) {}

  bool Verify(tls::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* status) override {
    const grpc::string_ref pem = request->peer_cert();
    const PeerVerdict verdict = JudgePeer(rules_, std::string(pem.data(), pem.size()));
    if (!verdict.is_accepted) {
      if (rules_.refusals != nullptr) rules_.refusals->Count(verdict.refusal);
      *status = grpc::Status(grpc::StatusCode::UNAUTHENTICATED, verdict.message);
    }
    return true;
  }
  void Cancel(tls::TlsCustomVerificationCheckRequest*) override {}

 private:
  const PeerRules rules_;
};

template <class Options>
void Fill(PeerRules rules, Options& options) {
  options.watch_identity_key_cert_pairs();
  options.set_certificate_verifier(
      tls::ExternalCertificateVerifier::Create<Verifier>(std::move(rules)));
}

}  // namespace

RefusalCounts::RefusalCounts(MetricRegistry& registry) {
  for (const Refusal refusal : kRefusals) {
    counters_[static_cast<size_t>(refusal)] =
        &registry.AddCounter({kRefusalMetrics, "janus_connections_refused_total"},
                             {{"reason", std::string(ToString(refusal))}});
  }
}

PeerVerdict JudgePeer(const PeerRules& rules, const std::string& certificate_pem) {
  const Result<std::shared_ptr<const TrustBundle>> bundle = rules.bundle();
  if (!bundle.ok()) {
    return {false, {}, Refusal::kUnknownAuthority, "ours: " + bundle.status().message()};
  }
  PeerVerdict verdict = (*bundle)->Judge(certificate_pem, rules.clock->WallNow());
  if (!verdict.is_accepted) return verdict;
  const Identity& who = verdict.identity;
  if (who.role != PeerRole::kOperator && who.authority != rules.authority) {
    return {false, who, Refusal::kAnotherService, ToUri(who) + " is of another service"};
  }
  if (std::find(rules.roles.begin(), rules.roles.end(), who.role) == rules.roles.end()) {
    return {false, who, Refusal::kRole, ToUri(who) + " has no part here"};
  }
  return verdict;
}

// Only the verifier judges the chain, because it can report and count the reason.
std::shared_ptr<grpc::ServerCredentials> MutualTlsServer(
    const std::shared_ptr<tls::CertificateProviderInterface>& own, PeerRules rules) {
  tls::TlsServerCredentialsOptions options(own);
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  Fill(std::move(rules), options);
  return tls::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> MutualTlsChannel(
    const std::shared_ptr<tls::CertificateProviderInterface>& own, PeerRules rules) {
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(own);
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  // Without roots gRPC uses the machine's own. If there are none, as in an image with only one
  // program, it does not connect at all.
  options.watch_root_certs();
  Fill(std::move(rules), options);
  // Uses separate names. gRPC 1.51 confuses a channel that begins to watch roots with a server that
  // already watches its certificate under the same name. The server would then present its first
  // certificate for ever.
  options.set_root_cert_name("channel");
  options.set_identity_cert_name("channel");
  return tls::TlsCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> MutualTlsChannel(const std::string& certificate_pem,
                                                           const std::string& key_pem,
                                                           PeerRules rules) {
  const tls::IdentityKeyCertPair pair{key_pem, certificate_pem};
  const Result<std::shared_ptr<const TrustBundle>> bundle = rules.bundle();
  return MutualTlsChannel(std::make_shared<tls::StaticDataCertificateProvider>(
                              bundle.ok() ? (*bundle)->text() : "", std::vector{pair}),
                          std::move(rules));
}

}  // namespace janus
