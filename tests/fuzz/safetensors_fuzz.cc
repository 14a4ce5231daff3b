// The bytes of a safetensors file: for any header, every returned tensor lies within the file.

#include <cstdint>
#include <span>

#include "common/check.h"
#include "dataplane/model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  const auto header = janus::dataplane::ParseSafetensors(file, "fuzz.safetensors");
  if (!header.ok()) {
    JANUS_CHECK(!header.status().message().empty());
    return 0;
  }
  for (const auto& [name, tensor] : header->tensors) {
    JANUS_CHECK(tensor.bytes.data() >= file.data() &&
                    tensor.bytes.data() + tensor.bytes.size() <= file.data() + file.size(),
                name);
    int64_t elements = 1;
    for (const int64_t extent : tensor.shape) {
      JANUS_CHECK(extent >= 0, name);
      elements *= extent;
    }
    JANUS_CHECK(static_cast<size_t>(elements) * static_cast<size_t>(SizeOf(tensor.dtype)) ==
                    tensor.bytes.size(),
                name);
  }
  return 0;
}
