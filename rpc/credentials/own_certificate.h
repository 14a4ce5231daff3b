#pragma once

#include <memory>

#include "common/metrics.h"
#include "rpc/credentials/trust_folder.h"

namespace janus {

inline constexpr MetricDeclaration kCertificateMetrics[] = {
    {"janus_certificate_not_before_timestamp_seconds", MetricType::kGauge, "", "seconds",
     "When the process's own certificate became valid, since 1970, read from its folder. Absent if "
     "it cannot be read, or if connections are plain text."},
    {"janus_certificate_not_after_timestamp_seconds", MetricType::kGauge, "", "seconds",
     "When it stops being valid."},
};

// Adds gauges about the certificate in `trust`, read at each scrape.
void TellCertificate(std::shared_ptr<const TrustFolder> trust, MetricRegistry& registry);

}  // namespace janus
