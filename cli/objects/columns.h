#pragma once

#include <string>
#include <vector>

namespace janus::cli {

// Formats rows of cells as text. Each column is as wide as its widest cell; columns are three
// spaces apart. The first row comes first; each row starts with `indent` spaces. No trailing
// spaces; every line ends with '\n'.
std::string RenderColumns(const std::vector<std::vector<std::string>>& rows, int indent = 0);

}  // namespace janus::cli
