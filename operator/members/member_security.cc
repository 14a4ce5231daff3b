#include "operator/members/member_security.h"

#include <optional>

#include "rpc/credentials/mutual_tls.h"

namespace janus::control {

Connections::SecurityOf MemberSecurity(const CertificateKeeper& certificates, const Clock& clock) {
  return [&certificates, &clock](const std::string& uid) -> Connections::Security {
    const Result<std::optional<CallerCertificates>> known = certificates.ForCalls(uid);
    if (known.ok() && !*known) return {};
    PeerRules rules;
    rules.roles = {PeerRole::kAttention, PeerRole::kExperts};
    rules.clock = &clock;
    if (!known.ok()) {
      rules.bundle = [status = known.status()] {
        return Result<std::shared_ptr<const TrustBundle>>(status);
      };
      return {[rules] { return MutualTlsChannel("", "", rules); }, 0};
    }
    const CallerCertificates& caller = **known;
    rules.authority = caller.authority;
    const auto make = [rules, caller]() mutable {
      rules.bundle = [read = TrustBundle::Parse(*caller.bundle)] { return read; };
      return MutualTlsChannel(caller.own->certificate, caller.own->key, rules);
    };
    return {make, caller.version};
  };
}

}  // namespace janus::control
