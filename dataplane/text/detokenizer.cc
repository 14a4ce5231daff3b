#include "dataplane/text/detokenizer.h"

#include "dataplane/text/text_buffer.h"

namespace janus::text {

void Detokenizer::Free::operator()(JanusDetokenizer* handle) const {
  janus_detokenizer_free(handle);
}

Result<Detokenizer> Detokenizer::Create(const Tokenizer& tokenizer, bool skip_special_tokens) {
  JanusDetokenizer* handle = nullptr;
  TextBuffer error;
  const int32_t code =
      janus_detokenizer_new(tokenizer.handle_, skip_special_tokens, &handle, error.out());
  if (code != 0) return ToStatus(code, error);
  return Detokenizer(handle);
}

Result<std::string> Detokenizer::Push(std::span<const int32_t> ids) {
  TextBuffer text, error;
  const int32_t code =
      janus_detokenizer_push(handle_.get(), reinterpret_cast<const uint32_t*>(ids.data()),
                             ids.size(), text.out(), error.out());
  if (code != 0) return ToStatus(code, error);
  return text.str();
}

Result<std::string> Detokenizer::Flush() {
  TextBuffer text, error;
  const int32_t code = janus_detokenizer_flush(handle_.get(), text.out(), error.out());
  if (code != 0) return ToStatus(code, error);
  return text.str();
}

}  // namespace janus::text
