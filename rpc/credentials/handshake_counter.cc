#include "rpc/credentials/handshake_counter.h"

#include <grpc/support/log.h>

#include <string_view>

#include "common/check.h"
#include "common/mutex.h"

namespace janus {
namespace {

// gRPC's log is global, and its threads may write to it until the process ends.
Mutex g_mu;
HandshakeCounter* g_counter JANUS_GUARDED_BY(g_mu) = nullptr;

void HearAll(gpr_log_func_args* args) {
  const MutexLock lock(g_mu);
  if (g_counter == nullptr) return;
  g_counter->Hear(args->message, args->severity == GPR_LOG_SEVERITY_ERROR);
}

}  // namespace

HandshakeCounter::HandshakeCounter(RefusalCounts& refusals, const Logger& log)
    : refusals_(refusals), log_(log) {
  {
    const MutexLock lock(g_mu);
    JANUS_CHECK(g_counter == nullptr, "a second HandshakeCounter");
    g_counter = this;
  }
  gpr_set_log_function(HearAll);
}

HandshakeCounter::~HandshakeCounter() {
  const MutexLock lock(g_mu);
  g_counter = nullptr;
}

void HandshakeCounter::Hear(const char* text, bool is_error) {
  const std::string_view message(text);
  if (message.starts_with("Handshake failed")) {
    refusals_.Count(Refusal::kHandshake);
    log_.Debug("a connection was refused", {{"error", message}});
  } else if (message.starts_with("No match found for server name")) {
    // Logged for every new connection: names and addresses are not checked here.
  } else if (is_error) {
    log_.Warning("gRPC", {{"error", message}});
  }
}

}  // namespace janus
