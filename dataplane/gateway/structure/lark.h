#pragma once

#include <string>
#include <string_view>

#include "common/status.h"
#include "dataplane/text/tokenizer.h"

// Pieces of Lark grammars as llguidance reads them.
namespace janus::gateway {

// A string literal.
std::string LarkString(std::string_view text);
// Text of an answer as a sequence of literals. Markers of models that are special tokens of the
// tokenizer are named by id, since other text never matches a special token.
std::string LarkText(const text::Tokenizer& tokenizer, std::string_view text);
// A regular expression that all of the text matches. InvalidArgument: it is empty.
Result<std::string> LarkRegex(std::string_view regex);

// A grammar in GBNF (llama.cpp's form of BNF, which vLLM's clients send) as a Lark grammar.
// InvalidArgument names the line that cannot be read.
Result<std::string> LarkOfGbnf(std::string_view gbnf);

}  // namespace janus::gateway
