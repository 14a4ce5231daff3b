// A chat template from a checkpoint: it renders or is refused, within its limits.

#include <cstdint>
#include <string_view>

#include "common/check.h"
#include "dataplane/text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const janus::text::ChatTemplateLimits limits{.instructions = 20'000, .output_bytes = 1u << 20};
  const auto chat =
      janus::text::ChatTemplate::Compile(source, "fuzz.jinja", {{"bos_token", "<s>"}}, limits);
  if (!chat.ok()) return 0;
  const auto text =
      chat->Render(R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}])",
                   true, janus::WallTime(), "{}");
  if (text.ok()) JANUS_CHECK(text->size() <= limits.output_bytes, text->size());
  return 0;
}
