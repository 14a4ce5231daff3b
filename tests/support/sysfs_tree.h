#pragma once

#include <filesystem>
#include <string>

#include "tests/support/temp_folder.h"

namespace janus {

// A made-up sysfs: PCI functions and RDMA devices, with the links that Linux has between them. A
// path is relative to /sys/devices: "pci0000:3a/0000:3a:00.0/0000:3b:00.0".
class SysfsTree {
 public:
  SysfsTree() { Folder("bus/pci/devices"); }

  const std::string& root() const { return folder_.path(); }

  void Bridge(const std::string& path) { Function(path, "0x8086", "0x060400", -1); }
  void Gpu(const std::string& path, int numa_node = -1) {
    Function(path, "0x10de", "0x030200", numa_node);
  }
  // An RDMA device and its PCI function. libibverbs does not list it, because it asks the kernel.
  void Nic(const std::string& path, const std::string& name, int numa_node = -1) {
    Function(path, "0x15b3", "0x020700", numa_node);
    Rdma(path, name);
  }
  void VirtualNic(const std::string& path, const std::string& name, const std::string& part_of,
                  int numa_node = -1) {
    Nic(path, name, numa_node);
    Link("devices/" + path + "/physfn", "../" + part_of);
  }
  // A software device of the kernel, on no bus.
  void SoftNic(const std::string& name) { Rdma("virtual", name); }
  void Function(const std::string& path, const std::string& vendor, const std::string& kind,
                int numa_node) {
    const std::string at = "devices/" + path;
    Folder(at);
    folder_.Write(at + "/vendor", vendor + "\n");
    folder_.Write(at + "/class", kind + "\n");
    folder_.Write(at + "/numa_node", std::to_string(numa_node) + "\n");
    const std::string address = path.substr(path.rfind('/') + 1);
    Link("bus/pci/devices/" + address, "../../../devices/" + path);
  }
  void Remove(const std::string& name) { std::filesystem::remove(root() + "/" + name); }

 private:
  void Folder(const std::string& name) { std::filesystem::create_directories(root() + "/" + name); }
  void Link(const std::string& name, const std::string& to) {
    std::filesystem::create_symlink(to, root() + "/" + name);
  }
  void Rdma(const std::string& path, const std::string& name) {
    Folder("devices/" + path + "/infiniband/" + name);
    Folder("class/infiniband");
    Link("class/infiniband/" + name, "../../devices/" + path + "/infiniband/" + name);
  }

  TempFolder folder_;
};

}  // namespace janus
