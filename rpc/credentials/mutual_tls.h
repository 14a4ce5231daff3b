#pragma once

#include <grpcpp/grpcpp.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/metrics.h"
#include "rpc/credentials/certificate.h"

namespace grpc::experimental {
class CertificateProviderInterface;
}

namespace janus {

// janus_connections_refused_total{reason}. Thread-safe; it must outlive the objects that count with
// it.
class RefusalCounts {
 public:
  explicit RefusalCounts(MetricRegistry& registry);
  void Count(Refusal refusal) { counters_[static_cast<size_t>(refusal)]->Add(); }
  uint64_t of(Refusal refusal) const { return counters_[static_cast<size_t>(refusal)]->value(); }

 private:
  std::array<Counter*, std::size(kRefusals)> counters_;
};

// Which peers a process accepts, at either end of a connection.
struct PeerRules {
  // Returns the current authorities; called at every handshake.
  std::function<Result<std::shared_ptr<const TrustBundle>>()> bundle;
  std::string authority;        // of the service
  std::vector<PeerRole> roles;  // kOperator: any operator with an authority in the bundle
  const Clock* clock = nullptr;
  RefusalCounts* refusals = nullptr;  // null: not counted
};

// Judges a certificate (PEM) by the rules.
PeerVerdict JudgePeer(const PeerRules& rules, const std::string& certificate_pem);

// Mutual TLS with the certificate and key from `own`. Only their certificates identify peers, not
// their addresses. `own` keeps its files or texts up to date: new handshakes use the current ones,
// existing connections stay open.
std::shared_ptr<grpc::ServerCredentials> MutualTlsServer(
    const std::shared_ptr<grpc::experimental::CertificateProviderInterface>& own, PeerRules rules);
std::shared_ptr<grpc::ChannelCredentials> MutualTlsChannel(
    const std::shared_ptr<grpc::experimental::CertificateProviderInterface>& own, PeerRules rules);
// The same from constant PEM texts.
std::shared_ptr<grpc::ChannelCredentials> MutualTlsChannel(const std::string& certificate_pem,
                                                           const std::string& key_pem,
                                                           PeerRules rules);

}  // namespace janus
