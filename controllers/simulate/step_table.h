#pragma once

#include <functional>
#include <vector>

namespace janus::controllers {

// How long a step takes by its rows and keys. Values come from the performance model through a grid
// that is filled on demand. It is linear between points: 4 per doubling of the rows, 2 per doubling
// of the keys, and 0, 1/16, 1/4 and all of `most_prompt_rows`. Confined to one thread.
class StepTable {
 public:
  // Seconds of a step. No argument is negative; rows and prompt rows are not both 0.
  using Model = std::function<double(double rows, double context, double prompt_rows)>;
  struct Prompts {
    double most_rows = 1;       // of a step
    double least_rows = 1;      // for any step time, so that prompts never starve
    double budget_seconds = 0;  // longest step with prompts
    double least_share = 0;     // but prompts get at least this share of a step without them
  };
  StepTable(Model model, Prompts prompts) : model_(std::move(model)), prompts_(prompts) {}

  // A step time that is linear in the mean keys of a running sequence, up to `until`.
  struct Line {
    double seconds = 0;  // at the keys asked for
    double per_key = 0;
    double until = 0;  // > the keys asked for
  };
  Line At(double rows, double context, double prompt_rows);

  // Prompt rows that a step may take beside its running sequences: as many as its budget allows.
  // Judged at the end of the line that begins at `context`, so that they are constant along it.
  double PromptRows(double rows, double context);

 private:
  static constexpr int kPromptPoints = 4;
  struct Cell {
    int row = 0;
    double along = 0;  // from point `row` to the next
    int key = 0;
  };
  Cell CellOf(double rows, double context) const;
  double PromptsAt(int i) const;
  double Point(int row, int key, int prompt);
  // Interpolates between points of the rows, at one point of the keys and of the prompt rows.
  double Mix(const Cell& cell, int key, int prompt);
  double Seconds(const Cell& cell, int key, double prompt_rows);

  Model model_;
  Prompts prompts_;
  std::vector<double> points_;  // [prompt][row][key]; < 0: not computed yet
};

}  // namespace janus::controllers
