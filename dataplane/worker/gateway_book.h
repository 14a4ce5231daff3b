#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "common/clock.h"
#include "common/gateway_counts.h"
#include "common/mutex.h"

namespace janus::dataplane {

// What the gateways of an attention instance have counted, for the operator (GetStatistics). The
// newest report of each gateway stays for ten minutes after its last stream has ended: what the
// gateway counted before it left must not be lost. At most GatewayReports::kMost gateways; one that
// has gone makes room for one that is attached.
//
// Thread-safe.
class GatewayBook {
 public:
  static constexpr std::chrono::minutes kKept{10};

  // `clock` must outlive it.
  explicit GatewayBook(const Clock& clock) : clock_(clock) {}

  // A stream of this gateway begins. No two streams have one number.
  void Attach(uint64_t stream, const std::string& gateway_id);
  // A report that came over the stream. One that is not newer than what is known changes nothing.
  void Take(uint64_t stream, GatewayCounts counts);
  // The stream has ended; unknown ones are ignored.
  void Detach(uint64_t stream);

  // Ages as of now. Of a gateway that is not attached nothing waits.
  GatewayReports Read() const;

 private:
  struct Entry {
    GatewayCounts counts;
    MonotonicTime taken;          // when the counts came
    std::set<uint64_t> streams;   // that live
    MonotonicTime last_attached;  // when the last of them ended
  };

  // The entry of a stream's gateway. Null: there is no room for it.
  Entry* EntryOf(uint64_t stream) JANUS_REQUIRES(mu_);
  bool MakeRoom() JANUS_REQUIRES(mu_);
  bool IsOver(const Entry& entry) const;

  const Clock& clock_;
  mutable Mutex mu_;
  std::map<std::string, Entry> entries_ JANUS_GUARDED_BY(mu_);        // by gateway id
  std::map<uint64_t, std::string> gateway_of_ JANUS_GUARDED_BY(mu_);  // streams that live
  std::set<uint64_t> left_out_ JANUS_GUARDED_BY(mu_);                 // streams without an entry
};

}  // namespace janus::dataplane
