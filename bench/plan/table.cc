#include "bench/plan/table.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace janus::bench {

void Print(const std::string& title, const char* agree, const std::vector<Row>& rows) {
  size_t what = 0;
  size_t published = 9;
  size_t ours = 4;
  for (const Row& row : rows) {
    what = std::max(what, row.what.size());
    published = std::max(published, row.published.size());
    ours = std::max(ours, row.ours.size());
  }
  const auto pad = [](const std::string& text, size_t width) {
    return text + std::string(width - text.size() + 2, ' ');
  };
  std::printf("\n%s\n", title.c_str());
  std::printf("  %s%s%s%-8s %s\n", pad("", what).c_str(), pad("published", published).c_str(),
              pad("ours", ours).c_str(), agree, "why");
  constexpr std::array<const char*, 3> kWords = {"same", "DIFFERS", "-"};
  for (const Row& row : rows) {
    std::printf("  %s%s%s%-8s %s\n", pad(row.what, what).c_str(),
                pad(row.published, published).c_str(), pad(row.ours, ours).c_str(),
                kWords[static_cast<size_t>(row.agreement)], row.why.c_str());
  }
}

}  // namespace janus::bench
