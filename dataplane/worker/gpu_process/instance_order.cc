#include "dataplane/worker/gpu_process/instance_order.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

namespace janus::dataplane {
namespace {

constexpr size_t kMostBytes = 64 << 10;
constexpr int kWithinMilliseconds = 1'000;
constexpr size_t kDescriptors = 2;

// A message of text and two descriptors.
struct Message {
  explicit Message(std::span<char> text) : piece{text.data(), text.size()} {
    head.msg_iov = &piece;
    head.msg_iovlen = 1;
    head.msg_control = control.data();
    head.msg_controllen = control.size();
  }
  iovec piece;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptors * sizeof(int))> control{};
  msghdr head{};
};

// The descriptors of a received message, which must be two.
Result<std::pair<Fd, Fd>> DescriptorsOf(Message& message) {
  std::vector<Fd> found;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message.head); head != nullptr;
       head = CMSG_NXTHDR(&message.head, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
      found.emplace_back(fd);
    }
  }
  if (found.size() != kDescriptors) {
    return InvalidArgument("an order has " + std::to_string(found.size()) +
                           " file descriptors; want 2");
  }
  return std::pair(std::move(found[0]), std::move(found[1]));
}

}  // namespace

Status SendOrder(int connection, const std::string& listen,
                 const std::vector<std::string>& arguments) {
  std::string text = listen + '\0';
  for (const std::string& one : arguments) {
    if (one.find('\0') != std::string::npos) {
      return InvalidArgument("an argument has a zero byte");
    }
    text += one + '\0';
  }
  if (text.size() > kMostBytes) {
    return InvalidArgument("the arguments have " + std::to_string(text.size()) +
                           " bytes; want at most " + std::to_string(kMostBytes));
  }
  Message message(text);
  cmsghdr* const head = CMSG_FIRSTHDR(&message.head);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(kDescriptors * sizeof(int));
  const std::array<int, kDescriptors> ours = {STDOUT_FILENO, STDERR_FILENO};
  std::memcpy(CMSG_DATA(head), ours.data(), sizeof(ours));
  if (sendmsg(connection, &message.head, MSG_NOSIGNAL) < 0) {
    return Unavailable(std::string("the process of the GPU takes no order: ") +
                       std::strerror(errno));
  }
  return OkStatus();
}

Result<InstanceOrder> ReceiveOrder(int connection) {
  pollfd readable{connection, POLLIN, 0};
  if (poll(&readable, 1, kWithinMilliseconds) <= 0) return InvalidArgument("no order came");
  std::string text(kMostBytes + 1, '\0');
  Message message(text);
  const ssize_t bytes = recvmsg(connection, &message.head, MSG_CMSG_CLOEXEC);
  if (bytes <= 0) return InvalidArgument("the worker has ended without an order");
  JANUS_ASSIGN_OR_RETURN(auto descriptors, DescriptorsOf(message));
  text.resize(static_cast<size_t>(bytes));
  if (text.size() > kMostBytes || text.back() != '\0') {
    return InvalidArgument("an order of " + std::to_string(bytes) + " bytes is not whole");
  }
  InstanceOrder out;
  std::string_view rest = text;
  const auto take = [&rest] {
    const size_t end = rest.find('\0');
    const std::string_view one = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    return std::string(one);
  };
  out.listen = take();
  while (!rest.empty()) out.arguments.push_back(take());
  if (out.arguments.empty()) return InvalidArgument("an order has no arguments");
  out.out = std::move(descriptors.first);
  out.err = std::move(descriptors.second);
  return out;
}

}  // namespace janus::dataplane
