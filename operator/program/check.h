#pragma once

#include <string>

#include "common/status.h"

namespace janus::control {

// Asks the operator at `url` ("http://HOST:PORT") for /readyz. Unavailable: no answer, or one that
// says why it is not ready.
Result<std::string> CheckOperator(const std::string& url);

// Asks the gateway at `url` which model it serves, then for a few tokens of it. Returns a line for
// people. Unavailable: no answer, an error, or an answer without tokens.
Result<std::string> CheckGateway(const std::string& url);

// `janus-operator check` prints the result of one of them. Exit code: 0 if it answers, 1 if not, 2
// for invalid flags.
int RunCheck(int argc, const char* const* argv);

}  // namespace janus::control
