// Prints the result of a command.

#pragma once

#include <cstdio>
#include <string>

#include "common/status.h"

namespace janus::cli {

// Writes the text to standard output, or returns its error.
inline Status Print(const Result<std::string>& text) {
  if (text.ok()) std::fputs(text->c_str(), stdout);
  return text.status();
}

}  // namespace janus::cli
