#pragma once

#include <string>
#include <string_view>

namespace janus::cli {

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};

// Standard output for a person: lines that stay, and below them a block that is drawn over itself
// on a terminal. Elsewhere (a pipe, a file) the block does not exist. Confined to one thread.
class Screen {
 public:
  // `fd` is not owned.
  Screen(int fd, bool is_terminal) : fd_(fd), is_terminal_(is_terminal) {}

  bool is_terminal() const { return is_terminal_; }
  // A line that stays.
  void Line(std::string_view text);
  // Replaces the block; "" takes it away. Lines are cut at the terminal's width and the last ones
  // left out, with their number, where its height ends: what wraps or scrolls away could not be
  // drawn over.
  void Block(std::string_view text, TerminalSize size = {});

 private:
  void Erase();
  void Write(std::string_view text);

  const int fd_;
  const bool is_terminal_;
  std::string block_;
  int block_lines_ = 0;
};

// 80 x 24 where the terminal does not say.
TerminalSize ReadTerminalSize(int fd);

}  // namespace janus::cli
