// Requests for structured answers: the first byte chooses the endpoint. A grammar that compiles can
// be followed: its mask allows a token that it then takes, or it says why not.

#include <cstdint>
#include <string>
#include <vector>

#include "common/check.h"
#include "dataplane/gateway/structure/answer_grammar.h"
#include "dataplane/text/grammar.h"
#include "tests/unit/dataplane/text/small_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace janus;           // NOLINT
  using namespace janus::gateway;  // NOLINT
  static const auto tokenizer = text::ByteFallbackTokenizer();
  static const auto compiler = text::GrammarCompiler::Create(*tokenizer).value();
  if (size < 2) return 0;
  const auto endpoint = data[0] % 2 == 0 ? Endpoint::kChat : Endpoint::kCompletions;
  const std::string body(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto parsed = ParseCompletionRequest(endpoint, body);
  const auto* request = std::get_if<CompletionRequest>(&parsed);
  if (request == nullptr) return 0;
  GrammarContext context{.tokenizer = *tokenizer};
  constexpr int kFormats = static_cast<int>(ToolFormat::kLlama) + 1;
  context.chat_text.tools = static_cast<ToolFormat>(data[1] % kFormats);
  context.chat_text.reads_reasoning = data[1] >= 128;
  const auto made = AnswerGrammar(context, *request);
  const auto* grammar = std::get_if<std::string>(&made);
  if (grammar == nullptr || grammar->empty()) return 0;
  const auto compiled = compiler->Compile(*grammar);
  if (!compiled.ok()) {
    JANUS_CHECK(compiled.status().code() == StatusCode::kInvalidArgument,
                compiled.status().message());
    return 0;
  }
  text::GrammarReader reader = (*compiled)->Start().value();
  std::vector<uint32_t> words(9);
  for (int i = 0; i < 20; ++i) {
    const auto state = reader.Mask(words);
    if (!state.ok() || *state == text::GrammarState::kComplete) return 0;
    int32_t token = -1;
    // Not always the first: white space may come for long.
    for (int32_t id = 0; id < 260; ++id) {
      const int32_t other = (id * 37 + i * 91) % 260;
      if ((words[static_cast<size_t>(other) / 32] >> (other % 32) & 1) != 0) token = other;
    }
    if (token < 0) return 0;
    const auto taken = reader.Consume(std::span(&token, 1));
    JANUS_CHECK(taken.ok(), taken.status().message());
  }
  return 0;
}
