#include "rpc/credentials/own_certificate.h"

#include <limits>
#include <optional>
#include <utility>

#include "common/clock.h"

namespace janus {

void TellCertificate(std::shared_ptr<const TrustFolder> trust, MetricRegistry& registry) {
  const auto add = [&](Metric metric, WallTime CertificateValidity::*which) {
    registry.AddGauge(metric, {}, [trust, which] {
      const std::optional<CertificateValidity> validity = trust->Validity();
      if (!validity) return std::numeric_limits<double>::quiet_NaN();
      return Seconds((*validity.*which).time_since_epoch()).count();
    });
  };
  add({kCertificateMetrics, "janus_certificate_not_before_timestamp_seconds"},
      &CertificateValidity::begin);
  add({kCertificateMetrics, "janus_certificate_not_after_timestamp_seconds"},
      &CertificateValidity::end);
}

}  // namespace janus
