#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "common/metrics.h"

namespace janus::dataplane {

// Why somebody at the exchange's door was not let in: the label `reason` of
// janus_connections_refused_total.
enum class ExchangeRefusal {
  kMalformed,  // no HELLO of this version, or the end before it was whole
  kTimeout,    // was not done saying it in time
  kOverflow,   // too many others came meanwhile
  kEpoch,      // of an epoch that is over
  kKey,        // of an epoch that is known here, with another key
  kMember,     // has no place in it, or has it already, or differs from its other members
};
inline constexpr ExchangeRefusal kExchangeRefusals[] = {
    ExchangeRefusal::kMalformed, ExchangeRefusal::kTimeout, ExchangeRefusal::kOverflow,
    ExchangeRefusal::kEpoch,     ExchangeRefusal::kKey,     ExchangeRefusal::kMember};
std::string_view ToString(ExchangeRefusal refusal);  // as the label says it

// janus_connections_refused_total{reason}. Thread-safe; outlives what counts with it, and does not
// outlive the registry.
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
