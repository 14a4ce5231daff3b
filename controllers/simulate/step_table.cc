#include "controllers/simulate/step_table.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace janus::controllers {
namespace {

// Point 0 is no row, point i > 0 is 2^((i - 1) / 4) rows; up to a million.
constexpr int kRowPoints = 1 + 4 * 20 + 1;
// Point i is 2^(4 + i / 2) keys; up to 16 million. Fewer keys than the first point count as the
// first point.
constexpr int kKeyPoints = 2 * 20 + 1;

template <int kCount>
std::array<double, kCount> Powers(double first, double per_doubling) {
  std::array<double, kCount> points;
  for (int i = 0; i < kCount; ++i) points[i] = std::exp2(first + i / per_doubling);
  return points;
}

double RowsAt(int i) {
  static const auto points = Powers<kRowPoints>(0, 4);
  return i == 0 ? 0 : points[i - 1];
}
double KeysAt(int i) {
  static const auto points = Powers<kKeyPoints>(4, 2);
  return points[i];
}

}  // namespace

StepTable::Cell StepTable::CellOf(double rows, double context) const {
  Cell cell;
  cell.row = rows < 1 ? 0 : std::min(1 + static_cast<int>(4 * std::log2(rows)), kRowPoints - 2);
  cell.along = (rows - RowsAt(cell.row)) / (RowsAt(cell.row + 1) - RowsAt(cell.row));
  cell.key = context < KeysAt(0)
                 ? 0
                 : std::min(static_cast<int>(2 * (std::log2(context) - 4)), kKeyPoints - 2);
  // Corrects a rounded logarithm.
  if (KeysAt(cell.key + 1) <= context) cell.key = std::min(cell.key + 1, kKeyPoints - 2);
  return cell;
}

double StepTable::PromptsAt(int i) const {
  constexpr std::array<double, kPromptPoints> kShares = {0, 1.0 / 16, 0.25, 1};
  return kShares[i] * prompts_.most_rows;
}

double StepTable::Point(int row, int key, int prompt) {
  if (points_.empty()) points_.assign(size_t{kPromptPoints} * kRowPoints * kKeyPoints, -1);
  double& point = points_[static_cast<size_t>((prompt * kRowPoints + row) * kKeyPoints + key)];
  // A step with only prompts counts as one decode row.
  if (point < 0) {
    point = model_(RowsAt(row == 0 && prompt == 0 ? 1 : row), KeysAt(key), PromptsAt(prompt));
  }
  return point;
}

double StepTable::Mix(const Cell& cell, int key, int prompt) {
  const double low = Point(cell.row, key, prompt);
  return low + cell.along * (Point(cell.row + 1, key, prompt) - low);
}

double StepTable::Seconds(const Cell& cell, int key, double prompt_rows) {
  if (prompt_rows <= 0) return Mix(cell, key, 0);
  int i = 1;
  while (i + 1 < kPromptPoints && prompt_rows > PromptsAt(i)) ++i;
  const double low = Mix(cell, key, i - 1);
  const double share = (prompt_rows - PromptsAt(i - 1)) / (PromptsAt(i) - PromptsAt(i - 1));
  return low + share * (Mix(cell, key, i) - low);
}

StepTable::Line StepTable::At(double rows, double context, double prompt_rows) {
  const Cell cell = CellOf(rows, context);
  const double from = KeysAt(cell.key);
  const double to = KeysAt(cell.key + 1);
  Line line;
  line.seconds = Seconds(cell, cell.key, prompt_rows);
  line.until = from;
  if (context < from) return line;  // fewer keys than the first point
  line.per_key = (Seconds(cell, cell.key + 1, prompt_rows) - line.seconds) / (to - from);
  line.seconds += line.per_key * (context - from);
  line.until = cell.key == kKeyPoints - 2 ? HUGE_VAL : to;
  return line;
}

double StepTable::PromptRows(double rows, double context) {
  const Cell cell = CellOf(rows, context);
  const int key = context < KeysAt(cell.key) ? cell.key : cell.key + 1;
  double before = Mix(cell, key, 0);
  const double budget = std::max(prompts_.budget_seconds, (1 + prompts_.least_share) * before);
  double fits = 0;
  for (int i = 1; i < kPromptPoints; ++i) {
    const double seconds = Mix(cell, key, i);
    if (seconds > budget) {
      const double share = (budget - before) / (seconds - before);
      fits = PromptsAt(i - 1) + std::max(share, 0.0) * (PromptsAt(i) - PromptsAt(i - 1));
      return std::max(std::floor(fits), prompts_.least_rows);
    }
    before = seconds;
  }
  return prompts_.most_rows;
}

}  // namespace janus::controllers
