#pragma once

#include <string>
#include <vector>

namespace janus::bench {

// What a publication says beside what the performance model says.
enum class Agreement { kSame, kDiffers, kNotAsked };

struct Row {
  std::string what;
  std::string published;
  std::string ours;
  Agreement agreement = Agreement::kNotAsked;
  std::string why;  // where it differs or cannot be asked
};

// A title, a line per row; `agree` heads the column of agreement ("order", "sign").
void Print(const std::string& title, const char* agree, const std::vector<Row>& rows);

inline Agreement If(bool is_same) {
  return is_same ? Agreement::kSame : Agreement::kDiffers;
}

}  // namespace janus::bench
