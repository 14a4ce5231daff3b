#pragma once

#include <string>
#include <vector>

namespace janus::bench {

// Compares a publication with the performance model.
enum class Agreement { kSame, kDiffers, kNotAsked };

struct Row {
  std::string what;
  std::string published;
  std::string ours;
  Agreement agreement = Agreement::kNotAsked;
  std::string why;  // why it differs or cannot be compared
};

// Prints a title and a line per row. `agree` heads the column of agreement ("order", "sign").
void Print(const std::string& title, const char* agree, const std::vector<Row>& rows);

inline Agreement If(bool is_same) {
  return is_same ? Agreement::kSame : Agreement::kDiffers;
}

}  // namespace janus::bench
