#pragma once

#include "common/statistics.h"
#include "dataplane/comm/exchange/exchange.h"
#include "dataplane/steps/step_control.h"

namespace janus::dataplane {

// What a member has sent, received, missed and dropped. Each epoch counts from 0. An instance adds
// the epochs up, because its statistics only grow.
struct MessageCounts {
  uint64_t rounds_missed = 0;
  uint64_t malformed = 0;  // with another tag or an impossible size
  uint64_t late = 0;       // rows and contributions that arrived after the end of their round
  uint64_t useless = 0;    // control messages that were dropped
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
};

inline MessageCounts CountsOf(const StepControl& control, const Transport& transport,
                              const Exchange& exchange) {
  return {control.missed(),  transport.dropped(),   exchange.stale(),
          control.dropped(), exchange.sent().bytes, exchange.received().bytes};
}

inline MessageCounts operator+(MessageCounts a, const MessageCounts& b) {
  a.rounds_missed += b.rounds_missed;
  a.malformed += b.malformed;
  a.late += b.late;
  a.useless += b.useless;
  a.bytes_sent += b.bytes_sent;
  a.bytes_received += b.bytes_received;
  return a;
}

// The inverse of Report.
inline MessageCounts CountsOf(const InstanceStatistics& statistics) {
  return {statistics.rounds_missed,
          statistics.messages_malformed,
          statistics.messages_late,
          statistics.messages_dropped - statistics.messages_malformed - statistics.messages_late,
          statistics.bytes_sent,
          statistics.bytes_received};
}

inline void Report(const MessageCounts& counts, InstanceStatistics& statistics) {
  statistics.rounds_missed = counts.rounds_missed;
  statistics.messages_malformed = counts.malformed;
  statistics.messages_late = counts.late;
  statistics.messages_dropped = counts.malformed + counts.late + counts.useless;
  statistics.bytes_sent = counts.bytes_sent;
  statistics.bytes_received = counts.bytes_received;
}

}  // namespace janus::dataplane
