#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "common/metrics.h"

namespace janus::dataplane {

// Why the exchange listener refused a connection: the label `reason` of
// janus_connections_refused_total.
enum class ExchangeRefusal {
  kMalformed,  // no HELLO of this version, or the connection ended before it was whole
  kTimeout,    // HELLO was not whole in time
  kOverflow,   // too many newer connections
  kEpoch,      // of an epoch that is over
  kKey,        // of an epoch that is known here, with another key
  kMember,     // has no place in the epoch, or is connected already, or differs from its other
               // members
};
inline constexpr ExchangeRefusal kExchangeRefusals[] = {
    ExchangeRefusal::kMalformed, ExchangeRefusal::kTimeout, ExchangeRefusal::kOverflow,
    ExchangeRefusal::kEpoch,     ExchangeRefusal::kKey,     ExchangeRefusal::kMember};
std::string_view ToString(ExchangeRefusal refusal);  // the label's value

// janus_connections_refused_total{reason}. Thread-safe. It must outlive the objects that count with
// it, and must not outlive the registry.
class ExchangeRefusalCounts {
 public:
  explicit ExchangeRefusalCounts(MetricRegistry& registry);
  void Count(ExchangeRefusal refusal) { counters_[static_cast<size_t>(refusal)]->Add(); }
  uint64_t of(ExchangeRefusal refusal) const {
    return counters_[static_cast<size_t>(refusal)]->value();
  }

 private:
  std::array<Counter*, std::size(kExchangeRefusals)> counters_;
};

}  // namespace janus::dataplane
