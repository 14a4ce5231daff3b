// A peer's certificate in its handshake, and the files in a folder of --trust.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/check.h"
#include "rpc/credentials/certificate.h"
#include "rpc/credentials/identity.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace janus;
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const std::optional<Identity> identity = ParseIdentity(text)) {
    JANUS_CHECK(ToUri(*identity) == text, text);
  }
  (void)CheckKeyPair(text, text);
  const auto bundle = TrustBundle::Parse(text);
  if (!bundle.ok()) return 0;
  const WallTime now = std::chrono::system_clock::from_time_t(1'800'000'000);
  const PeerVerdict verdict = (*bundle)->Judge(text, now);
  if (verdict.is_accepted) JANUS_CHECK(ParseIdentity(ToUri(verdict.identity)).has_value(), text);
  return 0;
}
