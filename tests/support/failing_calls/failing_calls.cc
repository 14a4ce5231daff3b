// Preloaded into a process, makes system calls fail for which a test cannot create the cause:
//   FAILING_ACCEPT=FILE     accept(2), with the error number in the file, as long as there is one;
//                           the connection stays in the listen queue
//   FAILING_FALLOCATE=NUM   posix_fallocate(3), with that error number

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace {

// The error number in the file that the variable names; 0: none.
int NumberInFile(const char* variable) {
  const char* path = std::getenv(variable);
  FILE* file = path != nullptr ? std::fopen(path, "re") : nullptr;
  if (file == nullptr) return 0;
  char text[16] = {};
  const bool read = std::fgets(text, sizeof(text), file) != nullptr;
  std::fclose(file);
  return read ? static_cast<int>(std::strtol(text, nullptr, 10)) : 0;
}

}  // namespace

extern "C" int accept(int fd, sockaddr* address, socklen_t* length) {
  if (const int number = NumberInFile("FAILING_ACCEPT"); number != 0) {
    errno = number;
    return -1;
  }
  using Accept = int (*)(int, sockaddr*, socklen_t*);
  static const auto next = reinterpret_cast<Accept>(dlsym(RTLD_NEXT, "accept"));
  return next(fd, address, length);
}

extern "C" int posix_fallocate(int fd, off_t offset, off_t length) {
  if (const char* number = std::getenv("FAILING_FALLOCATE"); number != nullptr) {
    return static_cast<int>(std::strtol(number, nullptr, 10));
  }
  using Fallocate = int (*)(int, off_t, off_t);
  static const auto next = reinterpret_cast<Fallocate>(dlsym(RTLD_NEXT, "posix_fallocate"));
  return next(fd, offset, length);
}
