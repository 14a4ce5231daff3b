#include "proto/credentials/handshakes.h"

#include <grpc/support/log.h>

#include <atomic>
#include <string_view>

namespace janus {
namespace {

struct Hearer {
  RefusalCounts& refusals;
  const Logger log;
};

// Of the process, as gRPC's log is; never freed, as its threads may speak to the very end.
std::atomic<Hearer*> g_hearer = nullptr;

void Hear(gpr_log_func_args* args) {
  const std::string_view message(args->message);
  Hearer& hearer = *g_hearer.load();
  if (message.starts_with("Handshake failed")) {
    hearer.refusals.Count(Refusal::kHandshake);
    hearer.log.Debug("a connection was refused", {{"error", message}});
  } else if (message.starts_with("No match found for server name")) {
    // Of every connection that is made: names and addresses play no part here.
  } else if (args->severity == GPR_LOG_SEVERITY_ERROR) {
    hearer.log.Warning("gRPC", {{"error", message}});
  }
}

}  // namespace

void CountHandshakes(RefusalCounts& refusals, const Logger& log) {
  g_hearer = new Hearer{refusals, log};
  gpr_set_log_function(Hear);
}

}  // namespace janus
