#include "dataplane/model/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "common/mutex.h"

namespace janus::dataplane {
namespace {

constexpr char kHowToReplace[] =
    "write a changed checkpoint to another folder, or put each file in its place by rename";

// What the signal handler reads: no lock, no allocation.
struct Slot {
  std::atomic<uintptr_t> begin = 0;  // 0: free; written last
  std::atomic<uintptr_t> end = 0;
  std::array<char, 1024> path = {};
};
constexpr size_t kSlots = 1024;  // more files than two copies of the largest checkpoint have
std::array<Slot, kSlots> slots;
struct sigaction former;  // UCX has its own handler

class Registry {
 public:
  // The slot; -1: none is free.
  int Add(const MappedFile& file) {
    const MutexLock lock(mu_);
    files_.insert(&file);
    for (size_t i = 0; i < kSlots; ++i) {
      Slot& slot = slots[i];
      if (slot.begin.load() != 0) continue;
      slot.path = {};
      const std::string& path = file.file().path;
      std::memcpy(slot.path.data(), path.data(), std::min(path.size(), slot.path.size() - 1));
      const auto begin = reinterpret_cast<uintptr_t>(file.bytes().data());
      slot.end.store(begin + file.bytes().size());
      slot.begin.store(begin);
      return static_cast<int>(i);
    }
    return -1;
  }
  void Remove(const MappedFile& file, int slot) {
    const MutexLock lock(mu_);
    files_.erase(&file);
    if (slot >= 0) slots[static_cast<size_t>(slot)].begin.store(0);
  }
  Status Check() const {
    const MutexLock lock(mu_);
    for (const MappedFile* file : files_) JANUS_RETURN_IF_ERROR(file->file().CheckUnchanged());
    return OkStatus();
  }

 private:
  mutable Mutex mu_;
  std::set<const MappedFile*> files_ JANUS_GUARDED_BY(mu_);
};

Registry& Files() {
  static Registry* const registry = new Registry();  // lives as long as any mapping
  return *registry;
}

void Say(const char* text) {
  size_t left = std::strlen(text);
  while (left > 0) {
    const ssize_t written = write(STDERR_FILENO, text, left);
    if (written <= 0) return;
    text += written;
    left -= static_cast<size_t>(written);
  }
}

void OnBusError(int signal, siginfo_t* info, void* context) {
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const Slot& slot : slots) {
    const uintptr_t begin = slot.begin.load();
    if (begin == 0 || at < begin || at >= slot.end.load()) continue;
    Say("janus: ");
    Say(slot.path.data());
    Say(": cannot be read any more while its weights are in use (SIGBUS): it was truncated, or its "
        "disk fails. This process ends; ");
    Say(kHowToReplace);
    Say("\n");
    _exit(1);
  }
  if ((former.sa_flags & SA_SIGINFO) != 0 && former.sa_sigaction != nullptr) {
    former.sa_sigaction(signal, info, context);
    return;
  }
  // The instruction is tried again, and raises the signal with its former action.
  sigaction(signal, &former, nullptr);
}

void HandleBusErrors() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &former);
  });
}

}  // namespace

Result<OpenedFile> OpenedFile::Open(const std::string& path) {
  OpenedFile out{path, Fd(open(path.c_str(), O_RDONLY | O_CLOEXEC))};
  struct stat info {};
  if (!out.fd || fstat(out.fd.get(), &info) != 0) {
    return NotFound(path + ": " + std::strerror(errno) +
                    "; are all shards of the checkpoint in the folder?");
  }
  out.bytes = static_cast<uint64_t>(info.st_size);
  out.modified = info.st_mtim;
  return out;
}

Status OpenedFile::CheckUnchanged() const {
  struct stat info {};
  std::string how;
  if (fstat(fd.get(), &info) != 0) {
    how = std::strerror(errno);
  } else if (static_cast<uint64_t>(info.st_size) != bytes) {
    how = std::to_string(bytes) + " bytes became " + std::to_string(info.st_size);
  } else if (info.st_mtim.tv_sec != modified.tv_sec || info.st_mtim.tv_nsec != modified.tv_nsec) {
    how = "it was written to";
  }
  if (how.empty()) return OkStatus();
  return FailedPrecondition(path + ": has changed while its weights are in use (" + how + "); " +
                            kHowToReplace);
}

Result<std::unique_ptr<MappedFile>> MappedFile::Map(OpenedFile file) {
  JANUS_RETURN_IF_ERROR(file.CheckUnchanged());
  void* memory = MAP_FAILED;
  if (file.bytes > 0) {
    memory = mmap(nullptr, file.bytes, PROT_READ, MAP_PRIVATE, file.fd.get(), 0);
  }
  if (memory == MAP_FAILED) return InvalidArgument(file.path + ": empty, or cannot be mapped");
  std::unique_ptr<MappedFile> out(new MappedFile(std::move(file)));
  out->bytes_ = {static_cast<const std::byte*>(memory), out->file_.bytes};
  HandleBusErrors();
  out->slot_ = Files().Add(*out);
  return out;
}

MappedFile::~MappedFile() {
  Files().Remove(*this, slot_);
  munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

Status CheckMappedFiles() {
  return Files().Check();
}

}  // namespace janus::dataplane
