#include "dataplane/worker/supervise/fetch_pages.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "common/clock.h"
#include "common/fd.h"
#include "common/unix_address.h"

namespace janus::dataplane {
namespace {

constexpr size_t kMostBytes = 8 << 20;

// A connection over which `request` was sent; none: the other end does not listen.
Fd Ask(const std::string& path, const std::string& request) {
  const std::optional<sockaddr_un> address = UnixAddressOf(path);
  if (!address) return Fd();
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return Fd();
  // Over a Unix socket neither waits: there is room for a connection and a short request, or not.
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 ||
      send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
          static_cast<ssize_t>(request.size())) {
    return Fd();
  }
  return socket;
}

// The body of a whole answer with status 200.
std::optional<std::string> BodyOf(const std::string& answer) {
  constexpr std::string_view kOk = "HTTP/1.1 200 ", kLength = "\r\nContent-Length: ";
  const size_t head = answer.find("\r\n\r\n");
  if (!answer.starts_with(kOk) || head == std::string::npos) return std::nullopt;
  const size_t at = answer.find(kLength);
  if (at == std::string::npos || at > head) return std::nullopt;
  size_t length = 0;
  std::from_chars(answer.data() + at + kLength.size(), answer.data() + head, length);
  std::string body = answer.substr(head + 4);
  if (body.size() != length) return std::nullopt;
  return body;
}

// Reads what is there. False: the answer has ended, or is too long.
bool Read(int socket, std::string& to) {
  char bytes[16384];
  for (;;) {
    const ssize_t got = recv(socket, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0 || to.size() + static_cast<size_t>(got) > kMostBytes) return false;
    to.append(bytes, static_cast<size_t>(got));
  }
}

}  // namespace

std::vector<std::optional<std::string>> FetchPages(const std::vector<std::string>& sockets,
                                                   std::string_view path,
                                                   std::chrono::milliseconds within) {
  const MonotonicTime deadline = MonotonicClock::now() + within;
  const std::string request =
      "GET " + std::string(path) + " HTTP/1.1\r\nHost: worker\r\nConnection: close\r\n\r\n";
  std::vector<std::string> answers(sockets.size());
  std::vector<Fd> open;
  std::vector<pollfd> polls;  // a closed one has the descriptor -1, which poll skips
  for (const std::string& socket : sockets) {
    open.push_back(Ask(socket, request));
    polls.push_back({open.back().get(), POLLIN, 0});
  }
  const auto is_open = [](const pollfd& one) { return one.fd >= 0; };
  while (std::ranges::any_of(polls, is_open)) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - MonotonicClock::now()).count();
    if (left <= 0) break;
    if (poll(polls.data(), polls.size(), static_cast<int>(left)) < 0 && errno != EINTR) break;
    for (size_t i = 0; i < polls.size(); ++i) {
      if (!is_open(polls[i]) || polls[i].revents == 0) continue;
      if (!Read(polls[i].fd, answers[i])) polls[i].fd = -1;
    }
  }
  std::vector<std::optional<std::string>> out;
  for (const std::string& answer : answers) out.push_back(BodyOf(answer));
  return out;
}

}  // namespace janus::dataplane
