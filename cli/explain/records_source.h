#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "operator/kube/object.h"

namespace janus::cli {

// Where janusctl explain, top and simulate read recorded decisions.
struct RecordsSource {
  // "NAME" or "NAMESPACE/NAME"; empty: the only service there.
  std::string service;
  // "http://HOST:PORT" of an operator, as `kubectl port-forward` opens it; empty: the services that
  // this user's janusctl serve on this machine.
  std::string server;
};

struct RecordsOf {
  control::ObjectKey key;
  std::string text;  // of the page
};

// Pages of operator/records/service_page.h; `page`: "" or "/worlds". NotFound: no such service, or
// nothing is recorded of it yet. InvalidArgument: several services, or no URL. Unavailable: nothing
// answers at the server. Messages say what to do.
Result<RecordsOf> ReadRecords(const RecordsSource& source, const std::string& page);
// How a step of the service went (operator/records/step_page.h), in that pool; 0: in the lowest one
// that has a step. Errors as for ReadRecords.
Result<RecordsOf> ReadStep(const RecordsSource& source, int pool);
// The records of every service there that has records.
Result<std::vector<RecordsOf>> ReadAllRecords(const RecordsSource& source);

}  // namespace janus::cli
