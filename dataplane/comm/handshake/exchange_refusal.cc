#include "dataplane/comm/handshake/exchange_refusal.h"

#include <string>

#include "common/connections_refused.h"

namespace janus::dataplane {

std::string_view ToString(ExchangeRefusal refusal) {
  switch (refusal) {
    case ExchangeRefusal::kMalformed:
      return "exchange_malformed";
    case ExchangeRefusal::kTimeout:
      return "exchange_timeout";
    case ExchangeRefusal::kOverflow:
      return "exchange_overflow";
    case ExchangeRefusal::kEpoch:
      return "exchange_epoch";
    case ExchangeRefusal::kKey:
      return "exchange_key";
    case ExchangeRefusal::kMember:
      return "exchange_member";
  }
  return "";
}

ExchangeRefusalCounts::ExchangeRefusalCounts(MetricRegistry& registry) {
  for (const ExchangeRefusal refusal : kExchangeRefusals) {
    counters_[static_cast<size_t>(refusal)] =
        &registry.AddCounter({kRefusalMetrics, "janus_connections_refused_total"},
                             {{"reason", std::string(ToString(refusal))}});
  }
}

}  // namespace janus::dataplane
