#pragma once

#include <string>
#include <string_view>

namespace janus::cli {

// As text of an HTML page, or as the value of an attribute in double quotes.
std::string Escape(std::string_view text);

}  // namespace janus::cli
