#include "dataplane/comm/handshake/send_hello.h"

#include <sys/socket.h>

#include <cstring>

namespace janus::dataplane {

bool SendHello(int socket, const Hello& hello, const std::string& address,
               std::span<const int> descriptors) {
  iovec parts[2] = {{const_cast<Hello*>(&hello), sizeof hello},
                    {const_cast<char*>(address.data()), hello.address_bytes}};
  JANUS_CHECK(descriptors.size() <= kMostDescriptors, descriptors.size());
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
  }
  const auto bytes = static_cast<ssize_t>(sizeof hello + hello.address_bytes);
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == bytes;
}

}  // namespace janus::dataplane
