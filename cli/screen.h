#pragma once

#include <string>
#include <string_view>

namespace janus::cli {

// Standard output for a person: lines that stay, and below them a block that is drawn over itself
// on a terminal. Elsewhere (a pipe, a file) the block does not exist. Confined to one thread.
class Screen {
 public:
  // `fd` is not owned.
  Screen(int fd, bool is_terminal) : fd_(fd), is_terminal_(is_terminal) {}

  bool is_terminal() const { return is_terminal_; }
  // A line that stays.
  void Line(std::string_view text);
  // Replaces the block; "" takes it away. Lines are cut at `columns`, or they would wrap and the
  // next draw would begin too low.
  void Block(std::string_view text, int columns);

 private:
  void Erase();
  void Write(std::string_view text);

  const int fd_;
  const bool is_terminal_;
  std::string block_;
  int block_lines_ = 0;
};

// Columns of the terminal, 80 when it does not say.
int TerminalColumns(int fd);

}  // namespace janus::cli
