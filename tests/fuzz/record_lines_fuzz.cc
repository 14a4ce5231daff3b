// Recorded decisions (janusctl replay --file): bad lines are refused by name, and lines that are
// read are read again from what they hold.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "operator/records/record_lines.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)janus::control::ParseLines(text);
  return 0;
}
