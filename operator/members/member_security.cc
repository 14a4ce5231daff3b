#include "operator/members/member_security.h"

#include <optional>

#include "proto/credentials/peers.h"

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
    rules.bundle = [bundle = caller.bundle] {
      return Result<std::shared_ptr<const TrustBundle>>(bundle);
    };
    rules.authority = caller.authority;
    return {[rules, own = caller.own] { return MutualTlsChannel(own.certificate, own.key, rules); },
            caller.version};
  };
}

}  // namespace janus::control
