#include "dataplane/comm/handshake/hello_reader.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace janus::dataplane {

HelloReader::State HelloReader::Read(int socket) {
  for (;;) {
    const size_t want = Missing();
    if (want == 0) return State::kWhole;
    char* to = filled_ < sizeof hello ? reinterpret_cast<char*>(&hello) + filled_
                                      : address.data() + (filled_ - sizeof hello);
    const ssize_t got = Receive(socket, to, want);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return State::kMore;
    if (got <= 0) return State::kBroken;
    filled_ += static_cast<size_t>(got);
    if (filled_ >= sizeof hello.magic && hello.magic != Hello::kMagic) return State::kBroken;
    if (filled_ == sizeof hello) {
      if (hello.address_bytes > Hello::kMostAddressBytes) return State::kBroken;
      address.resize(hello.address_bytes);
    }
  }
}

size_t HelloReader::Missing() const {
  if (filled_ < sizeof hello) return sizeof hello - filled_;
  return sizeof hello + address.size() - filled_;
}

void HelloReader::Keep(Fd descriptor) {
  if (!segment) {
    segment = std::move(descriptor);
  } else if (!device) {
    device = std::move(descriptor);
  }
}

ssize_t HelloReader::Receive(int socket, char* to, size_t bytes) {
  iovec part{to, bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); received > 0 && head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
      Keep(Fd(fd));
    }
  }
  return received;
}

}  // namespace janus::dataplane
