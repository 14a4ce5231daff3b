#include "cli/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace janus::cli {

void Screen::Write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // the reader is gone; the service goes on
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void Screen::Erase() {
  if (block_lines_ > 0) Write("\x1b[" + std::to_string(block_lines_) + "A\r\x1b[J");
  block_lines_ = 0;
}

void Screen::Line(std::string_view text) {
  Erase();
  Write(std::string(text) + "\n" + block_);
  block_lines_ = static_cast<int>(std::count(block_.begin(), block_.end(), '\n'));
}

void Screen::Block(std::string_view text, TerminalSize size) {
  if (!is_terminal_) return;
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  // The cursor needs one line below the block.
  const auto room = static_cast<size_t>(std::max(size.rows - 1, 1));
  if (lines.size() > room) {
    const size_t left_out = lines.size() - (room - 1);
    lines.resize(room - 1);
    lines.push_back("... " + std::to_string(left_out) + " more lines");
  }
  std::string cut;
  for (const std::string& line : lines) {
    cut += line.substr(0, static_cast<size_t>(std::max(size.columns, 1))) + "\n";
  }
  Erase();
  block_ = std::move(cut);
  Write(block_);
  block_lines_ = static_cast<int>(std::count(block_.begin(), block_.end(), '\n'));
}

TerminalSize ReadTerminalSize(int fd) {
  TerminalSize out;
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0) return out;
  if (size.ws_col > 0) out.columns = size.ws_col;
  if (size.ws_row > 0) out.rows = size.ws_row;
  return out;
}

}  // namespace janus::cli
