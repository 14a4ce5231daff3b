#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/fd.h"

namespace janus {

// One response of an HTTP/1.1 server, as sent.
struct HttpAnswer {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};  // without the framing of chunks
  bool is_chunked = false;
  bool ends_with_connection = false;  // the end of the connection ends the body

  // Empty: the header is absent or empty. `name` is case-sensitive.
  std::string header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return value;
    }
    return "";
  }
};

enum class TookAnswer : uint8_t {
  kWhole,
  kPart,  // well-formed so far; more is to come
  kMalformed,
};

namespace raw_http_internal {

inline bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  });
}

inline bool ReadNumber(std::string_view text, int base, size_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return error == std::errc() && end == text.data() + text.size();
}

// Takes a line up to CR LF. Nothing: it is not complete yet.
inline std::optional<std::string_view> TakeLine(std::string_view& rest) {
  const size_t end = rest.find("\r\n");
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 2);
  return line;
}

inline TookAnswer TakeHead(std::string_view& rest, HttpAnswer& answer) {
  const std::string_view kVersion = "HTTP/1.1 ";
  if (!kVersion.starts_with(rest.substr(0, kVersion.size()))) return TookAnswer::kMalformed;
  const auto status_line = TakeLine(rest);
  if (!status_line) return TookAnswer::kPart;
  size_t status = 0;
  if (status_line->size() < kVersion.size() + 5 || (*status_line)[kVersion.size() + 3] != ' ' ||
      !ReadNumber(status_line->substr(kVersion.size(), 3), 10, status) || status < 100) {
    return TookAnswer::kMalformed;
  }
  answer.status = static_cast<int>(status);
  for (;;) {
    const auto line = TakeLine(rest);
    if (!line) return TookAnswer::kPart;
    if (line->empty()) return TookAnswer::kWhole;
    const size_t colon = line->find(": ");
    if (colon == std::string_view::npos || !IsToken(line->substr(0, colon)) ||
        line->find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos) {
      return TookAnswer::kMalformed;
    }
    answer.headers.emplace_back(line->substr(0, colon), line->substr(colon + 2));
  }
}

inline TookAnswer TakeChunks(std::string_view& rest, HttpAnswer& answer) {
  for (;;) {
    const auto line = TakeLine(rest);
    if (!line) return TookAnswer::kPart;
    size_t bytes = 0;
    if (!ReadNumber(*line, 16, bytes)) return TookAnswer::kMalformed;
    answer.body += rest.substr(0, bytes);
    if (rest.size() < bytes) return TookAnswer::kPart;
    rest.remove_prefix(bytes);
    if (!std::string_view("\r\n").starts_with(rest.substr(0, 2))) return TookAnswer::kMalformed;
    if (rest.size() < 2) return TookAnswer::kPart;
    rest.remove_prefix(2);
    if (bytes == 0) return TookAnswer::kWhole;
  }
}

}  // namespace raw_http_internal

// Takes the first response from `bytes`, or as much of it as there is. It is strict: anything
// unknown is malformed. `to_head`: it answers HEAD and has no body. `at_end`: no more bytes follow.
inline TookAnswer TakeHttpAnswer(std::string_view& bytes, bool to_head, bool at_end,
                                 HttpAnswer& answer) {
  using namespace raw_http_internal;  // NOLINT
  answer = {};
  const TookAnswer head = TakeHead(bytes, answer);
  if (head != TookAnswer::kWhole || answer.status < 200) return head;
  std::vector<std::string> lengths, encodings;
  for (const auto& [name, value] : answer.headers) {
    if (name == "Content-Length") lengths.push_back(value);
    if (name == "Transfer-Encoding") encodings.push_back(value);
  }
  if (lengths.size() + encodings.size() > 1) return TookAnswer::kMalformed;
  if (!encodings.empty()) {
    if (encodings[0] != "chunked") return TookAnswer::kMalformed;
    answer.is_chunked = true;
    return to_head ? TookAnswer::kWhole : TakeChunks(bytes, answer);
  }
  if (!lengths.empty()) {
    size_t length = 0;
    if (!ReadNumber(lengths[0], 10, length)) return TookAnswer::kMalformed;
    if (to_head) return TookAnswer::kWhole;
    answer.body = bytes.substr(0, length);
    bytes.remove_prefix(answer.body.size());
    return answer.body.size() == length ? TookAnswer::kWhole : TookAnswer::kPart;
  }
  if (answer.header("Connection") != "close") return TookAnswer::kMalformed;
  answer.ends_with_connection = true;
  answer.body = bytes;
  bytes = {};
  return at_end ? TookAnswer::kWhole : TookAnswer::kPart;
}

// A client's connection to 127.0.0.1 that sends any bytes. Each wait takes at most 30 s.
class RawHttpClient {
 public:
  // `receive_buffer`: bytes that the kernel buffers while the test does not read; 0: its default.
  explicit RawHttpClient(int port, int receive_buffer = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{30, 0};
    const int on = 1;
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (receive_buffer > 0) {
      setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ =
        connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }

  bool is_connected() const { return is_connected_; }
  // False: the other end is gone.
  bool Send(std::string_view bytes) {
    return send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // Ends sending; can still read.
  void HalfClose() { shutdown(fd_.get(), SHUT_WR); }
  void Close() { fd_.Reset(); }
  // Closes like a crashed client: the other end reads ECONNRESET.
  void Reset() {
    const linger at_once{1, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    fd_.Reset();
  }

  // The next response. Status 0: there was no response; the body describes what arrived instead.
  HttpAnswer Read(bool to_head = false) {
    for (;;) {
      std::string_view rest = unread_;
      HttpAnswer answer;
      const TookAnswer took = TakeHttpAnswer(rest, to_head, has_ended_, answer);
      if (took == TookAnswer::kWhole) {
        unread_.erase(0, unread_.size() - rest.size());
        return answer;
      }
      if (took == TookAnswer::kMalformed || has_ended_ || !Receive()) {
        return {.body = (has_ended_ ? "the connection ended after: " : "no response: ") + unread_};
      }
    }
  }
  // Waits until so many bytes arrived that no Read has taken, or the connection ended; takes them.
  std::string ReadBytes(size_t bytes) {
    while (unread_.size() < bytes && !has_ended_ && Receive()) {
    }
    std::string out = unread_.substr(0, bytes);
    unread_.erase(0, bytes);
    return out;
  }
  // The remaining bytes until the other end closes. Nothing: it does not close.
  std::optional<std::string> ReadToEnd() {
    while (!has_ended_) {
      if (!Receive()) return std::nullopt;
    }
    return std::exchange(unread_, "");
  }

 private:
  // False: no bytes arrived in time.
  bool Receive() {
    char bytes[16384];
    const ssize_t got = recv(fd_.get(), bytes, sizeof bytes, 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (got <= 0) {
      has_ended_ = true;
    } else {
      unread_.append(bytes, static_cast<size_t>(got));
    }
    return true;
  }

  Fd fd_;
  bool is_connected_ = false;
  bool has_ended_ = false;
  std::string unread_;
};

// Sends SIGTERM to the server on this thread, which reads it. Other threads need not block it.
inline int SignalServer(std::jthread& runs) {
  // It ends no thread, because the server reads it.
  // NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread)
  return pthread_kill(runs.native_handle(), SIGTERM);
}

}  // namespace janus
