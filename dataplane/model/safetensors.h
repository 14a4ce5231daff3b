#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/dtype.h"
#include "common/status.h"
#include "dataplane/model/mapped_file.h"

namespace janus::dataplane {

// A tensor in a mapped safetensors file. `bytes` lie in the mapping, at any alignment.
struct StoredTensor {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::string file;  // for messages
};

// The name of a number format in a safetensors header: "F32".
std::string_view StoredName(DType dtype);

// "[4096,1024]", for messages.
std::string ShapeText(const std::vector<int64_t>& shape);

// Reads the header of a safetensors file (8-byte length, JSON, data): name -> tensor. Pure, and
// safe on any bytes. InvalidArgument names what is wrong: truncated, overlapping the end, not JSON,
// a shape that does not fit its bytes. Tensors in unsupported number formats are left out, and an
// error names the format if one is requested.
struct SafetensorsHeader {
  std::map<std::string, StoredTensor, std::less<>> tensors;
  // Tensors of type U8, which is no number format: `dtype` is not set.
  std::map<std::string, StoredTensor, std::less<>> bytes;
  std::map<std::string, std::string, std::less<>> foreign;  // name -> its number format
};
Result<SafetensorsHeader> ParseSafetensors(std::span<const std::byte> file,
                                           const std::string& name);

// A Hugging Face checkpoint folder: one model.safetensors, or shards with an index. All files are
// opened at once, so that a folder that is replaced later does not give a mixture of two models. A
// file is mapped read-only at the first request for one of its tensors, so a role touches only what
// it needs.
//
// Thread-compatible; Find is not const because it maps.
class Checkpoint {
 public:
  // NotFound / InvalidArgument name the file and what is wrong with it.
  static Result<std::unique_ptr<Checkpoint>> Open(const std::string& folder);
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  bool Has(std::string_view tensor) const;
  // InvalidArgument: no such tensor, or its shard is missing or broken.
  Result<StoredTensor> Find(std::string_view tensor);
  // The same for a tensor of type U8.
  Result<StoredTensor> FindBytes(std::string_view tensor);

 private:
  struct File {
    std::unique_ptr<MappedFile> mapping;
    SafetensorsHeader header;
  };

  explicit Checkpoint(std::string folder) : folder_(std::move(folder)) {}
  Result<const File*> Map(const std::string& file);
  // The file that should contain a tensor, and that file's name.
  Result<std::pair<const File*, std::string>> FileOf(std::string_view tensor);
  Status ReadIndex(const std::string& path);

  const std::string folder_;
  std::map<std::string, std::string, std::less<>> shard_of_;  // with an index: tensor -> file
  std::map<std::string, OpenedFile> opened_;                  // not mapped yet
  std::map<std::string, File> files_;
};

}  // namespace janus::dataplane
