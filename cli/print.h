// What commands do with their text.

#pragma once

#include <cstdio>
#include <string>

#include "common/status.h"

namespace janus::cli {

// Writes it to standard output, or hands its error on.
inline Status Print(const Result<std::string>& text) {
  if (text.ok()) std::fputs(text->c_str(), stdout);
  return text.status();
}

}  // namespace janus::cli
