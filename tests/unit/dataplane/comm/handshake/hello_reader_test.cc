#include "dataplane/comm/handshake/hello_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

namespace janus::dataplane {
namespace {

int OpenDescriptors() {
  int open = 0;
  for (int fd = 0; fd < 1024; ++fd) open += fcntl(fd, F_GETFD) >= 0;
  return open;
}

// Sends a byte, with the descriptor so many times.
void SendWith(int socket, char byte, int descriptor, size_t times) {
  constexpr size_t kMaxPending = 8;
  ASSERT_LE(times, kMaxPending);
  std::array<int, kMaxPending> descriptors;
  descriptors.fill(descriptor);
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptors)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(times * sizeof(int));
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(times * sizeof(int));
  std::memcpy(CMSG_DATA(head), descriptors.data(), times * sizeof(int));
  ASSERT_EQ(sendmsg(socket, &message, 0), 1) << strerror(errno);
}

TEST(HelloReader, KeepsTwoDescriptorsOfAllThatComeWithAHello) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  const Fd ours(pair[0]), theirs(pair[1]);
  const int before = OpenDescriptors();
  {
    HelloReader reader;
    const uint64_t magic = Hello::kMagic;
    std::array<char, sizeof magic> bytes;
    std::memcpy(bytes.data(), &magic, sizeof magic);
    for (size_t i = 0; i < bytes.size(); ++i) {
      SendWith(theirs.get(), bytes[i], theirs.get(), i + 1);
      ASSERT_EQ(reader.Read(ours.get()), HelloReader::State::kMore);
      EXPECT_TRUE(reader.segment);
      EXPECT_EQ(static_cast<bool>(reader.device), i > 0);
      EXPECT_EQ(OpenDescriptors(), before + (i > 0 ? 2 : 1)) << i + 1 << " descriptors";
    }
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

}  // namespace
}  // namespace janus::dataplane
