#pragma once

#include <string>
#include <string_view>

namespace janus::cli {

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};

// Standard output for a person: lines that stay, and below them, on a terminal, a block that is
// redrawn in place. A pipe or a file gets no block. Confined to one thread.
class Screen {
 public:
  // Does not own `fd`.
  Screen(int fd, bool is_terminal) : fd_(fd), is_terminal_(is_terminal) {}

  bool is_terminal() const { return is_terminal_; }
  // Prints a line that stays.
  void Line(std::string_view text);
  // Replaces the block; "" removes it. Lines are cut at the terminal's width. If the block is too
  // high, its last lines are left out and counted: a line that wraps or scrolls away cannot be
  // redrawn.
  void Block(std::string_view text, TerminalSize size = {});

 private:
  void Erase();
  void Write(std::string_view text);

  const int fd_;
  const bool is_terminal_;
  std::string block_;
  int block_lines_ = 0;
};

// 80 x 24 if the terminal does not report its size.
TerminalSize ReadTerminalSize(int fd);

}  // namespace janus::cli
