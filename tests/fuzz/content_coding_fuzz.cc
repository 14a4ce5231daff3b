// A compressed body: the first byte chooses the coding. A decoded body stays within the bound.

#include <cstdint>
#include <string_view>

#include "common/check.h"
#include "dataplane/gateway/content_coding.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace janus::gateway;  // NOLINT
  if (size == 0) return 0;
  constexpr size_t kMost = 1 << 20;
  constexpr ContentCoding kCodings[] = {ContentCoding::kGzip, ContentCoding::kDeflate,
                                        ContentCoding::kZstd};
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto decoded = Decode(kCodings[data[0] % 3], body, kMost);
  if (decoded.ok()) JANUS_CHECK(decoded->size() <= kMost);
  return 0;
}
