// tiktoken.model and, behind a zero byte, tokenizer_config.json: a vocabulary that loads gives back
// every text that it encodes.

#include <cstdint>
#include <string_view>

#include "common/check.h"
#include "dataplane/text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t zero = all.find('\0');
  if (zero == std::string_view::npos) return 0;
  const auto tokenizer =
      janus::text::Tokenizer::FromTiktoken(all.substr(0, zero), all.substr(zero + 1), "fuzz.model");
  if (!tokenizer.ok()) return 0;
  for (const std::string_view text :
       {"", "Hello, world. 12 34", "\xc3\xa4\xf0\x9f\x98\x80 [BOS]"}) {
    const auto ids = (*tokenizer)->Encode(text, true);
    JANUS_CHECK(ids.ok(), ids.status().ToString());
    JANUS_CHECK((*tokenizer)->Decode(*ids, false).value() == text);
  }
  return 0;
}
