#include "cli/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace janus::cli {

void Screen::Write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody reads any more; the service goes on
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

void Screen::Block(std::string_view text, int columns) {
  if (!is_terminal_) return;
  std::string cut;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    cut += text.substr(0, std::min(end, static_cast<size_t>(std::max(columns, 1))));
    cut += '\n';
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  Erase();
  block_ = std::move(cut);
  Write(block_);
  block_lines_ = static_cast<int>(std::count(block_.begin(), block_.end(), '\n'));
}

int TerminalColumns(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace janus::cli
