#pragma once

#include "common/clock.h"
#include "operator/records/record_book.h"
#include "rpc/page_server.h"

namespace janus::control {

// The page of decisions at /, and below /v1 the records that it reads (records/service_page.h).
// Both arguments outlive the server. There are no credentials: listen where only permitted readers
// can connect. A browser that another site has sent here is refused (421) by its Host, so that
// no site can read the records by a name of its own for this address.
PageServer::OtherPages DecisionPages(const RecordBook& records, const Clock& clock);

// Whether a Host header names this machine itself: localhost, 127.0.0.1 or [::1], with any port.
bool IsThisMachine(std::string_view host);

}  // namespace janus::control
