#include "common/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace janus {
namespace {

bool IsOpen(int fd) {
  return fcntl(fd, F_GETFD) >= 0;
}

TEST(Fd, ClosesWhatItOwnsOnceAndNothingElse) {
  int number;
  {
    Fd first(open("/dev/null", O_RDONLY));
    ASSERT_TRUE(static_cast<bool>(first));
    number = first.get();
    Fd second = std::move(first);
    EXPECT_EQ(second.get(), number);
    EXPECT_TRUE(IsOpen(number));
  }
  EXPECT_FALSE(IsOpen(number));
}

TEST(Fd, TakingAnotherClosesTheFirst) {
  Fd fd(open("/dev/null", O_RDONLY));
  const int first = fd.get();
  Fd other(open("/dev/null", O_RDONLY));
  const int second = other.get();
  fd = std::move(other);
  EXPECT_FALSE(IsOpen(first));
  EXPECT_TRUE(IsOpen(second));
  const int released = fd.Release();
  EXPECT_EQ(released, second);
  fd.Reset();
  EXPECT_TRUE(IsOpen(released));
  close(released);
}

}  // namespace
}  // namespace janus
