#pragma once

#include <string>
#include <vector>

namespace janus::cli {

// Rows of cells as text, columns as wide as their widest cell and three spaces apart, the first row
// first; `indent` spaces before each. No trailing spaces; lines end with '\n'.
std::string RenderColumns(const std::vector<std::vector<std::string>>& rows, int indent = 0);

}  // namespace janus::cli
