#pragma once

#include <memory>

#include "common/metrics.h"
#include "rpc/credentials/trust_folder.h"

namespace janus {

inline constexpr MetricDeclaration kCertificateMetrics[] = {
    {"janus_certificate_not_before_timestamp_seconds", MetricType::kGauge, "", "seconds",
     "When the process's own certificate, as its folder has it now, began to be valid, since 1970. "
     "Absent where it cannot be read, and where connections are plain text."},
    {"janus_certificate_not_after_timestamp_seconds", MetricType::kGauge, "", "seconds",
     "When it ceases to be valid."},
};

// What is told of the certificate in `trust`, at each scrape.
void TellCertificate(std::shared_ptr<const TrustFolder> trust, MetricRegistry& registry);

}  // namespace janus
