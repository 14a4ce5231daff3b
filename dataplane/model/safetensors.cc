#include "dataplane/model/safetensors.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

#include "common/read_file.h"

namespace janus::dataplane {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = uint64_t{100} << 20;
constexpr char kSingle[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr char kBytes[] = "U8";

std::optional<DType> ParseDType(const std::string& name) {
  for (const DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat8E4M3}) {
    if (name == StoredName(dtype)) return dtype;
  }
  return std::nullopt;
}

// A text as JSON, and a key that occurs twice at `depth`. nlohmann's parser keeps the last of both.
struct Parsed {
  json value;
  std::optional<std::string> repeated;
};
Parsed ParseOnce(std::string_view text, int depth) {
  Parsed out;
  std::set<std::string, std::less<>> keys;
  const auto note = [&](int at, json::parse_event_t event, const json& parsed) {
    if (event != json::parse_event_t::key || at != depth) return true;
    const auto& key = parsed.get_ref<const std::string&>();
    if (!keys.insert(key).second && !out.repeated) out.repeated = key;
    return true;
  };
  out.value = json::parse(text, note, /*allow_exceptions=*/false);
  return out;
}

// Reads shape and offsets of one entry; false if they are not as the format requires.
bool ReadEntry(const json& entry, std::vector<int64_t>& shape, uint64_t& begin, uint64_t& end) {
  const auto s = entry.find("shape");
  const auto o = entry.find("data_offsets");
  if (s == entry.end() || !s->is_array() || o == entry.end() || !o->is_array() || o->size() != 2)
    return false;
  for (const json& extent : *s) {
    if (!extent.is_number_unsigned()) return false;
    shape.push_back(extent.get<int64_t>());
  }
  if (!(*o)[0].is_number_unsigned() || !(*o)[1].is_number_unsigned()) return false;
  begin = (*o)[0].get<uint64_t>();
  end = (*o)[1].get<uint64_t>();
  return begin <= end;
}

// The byte range of a tensor in the file's data.
struct Extent {
  uint64_t begin;
  uint64_t end;
  std::string tensor;
};

// Without overlaps callers can tell tensors apart by their address.
Status RefuseOverlaps(const std::string& name, std::vector<Extent> extents) {
  std::erase_if(extents, [](const Extent& extent) { return extent.begin == extent.end; });
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  for (size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].begin >= extents[i - 1].end) continue;
    return InvalidArgument(name + ": tensors '" + extents[i - 1].tensor + "' and '" +
                           extents[i].tensor + "' share bytes; the file is damaged");
  }
  return OkStatus();
}

}  // namespace

std::string_view StoredName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "F32";
    case DType::kBFloat16:
      return "BF16";
    case DType::kFloat16:
      return "F16";
    case DType::kFloat8E4M3:
      return "F8_E4M3";
    case DType::kMxfp4:
      return "U8";
  }
  return "unknown";
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

Result<SafetensorsHeader> ParseSafetensors(std::span<const std::byte> file,
                                           const std::string& name) {
  uint64_t header_bytes = 0;
  if (file.size() < sizeof header_bytes) {
    return InvalidArgument(name + ": " + std::to_string(file.size()) +
                           " bytes, too short for a safetensors file; was the download cut off?");
  }
  const std::string_view beginning(reinterpret_cast<const char*>(file.data()),
                                   std::min<size_t>(file.size(), 64));
  if (IsGitLfsPointer(beginning)) return GitLfsPointer(name);
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  if (header_bytes > kMaxHeaderBytes || header_bytes > file.size() - sizeof header_bytes) {
    return InvalidArgument(name + ": its header claims " + std::to_string(header_bytes) +
                           " bytes of " + std::to_string(file.size()) +
                           "; truncated, or not a safetensors file");
  }
  const auto* text = reinterpret_cast<const char*>(file.data() + sizeof header_bytes);
  const auto& [header, repeated] = ParseOnce({text, header_bytes}, 1);
  if (!header.is_object()) return InvalidArgument(name + ": its header is not a JSON object");
  if (repeated) return InvalidArgument(name + ": names tensor '" + *repeated + "' twice");
  const std::span<const std::byte> data = file.subspan(sizeof header_bytes + header_bytes);

  SafetensorsHeader out;
  std::vector<Extent> extents;
  for (const auto& [tensor, entry] : header.items()) {
    if (tensor == "__metadata__") continue;
    const std::string where = name + ": tensor '" + tensor + "'";
    const auto dtype_name = entry.is_object() ? entry.find("dtype") : entry.end();
    if (!entry.is_object() || dtype_name == entry.end() || !dtype_name->is_string()) {
      return InvalidArgument(where + ": has no dtype");
    }
    StoredTensor stored;
    uint64_t begin = 0, end = 0;
    if (!ReadEntry(entry, stored.shape, begin, end)) {
      return InvalidArgument(where + ": its shape or data_offsets are malformed");
    }
    if (end > data.size()) {
      return InvalidArgument(where + ": ends at byte " + std::to_string(end) + " of " +
                             std::to_string(data.size()) + " bytes of data; the file is truncated");
    }
    extents.push_back({begin, end, tensor});
    const bool is_bytes = *dtype_name == kBytes;
    const std::optional<DType> dtype = ParseDType(dtype_name->get<std::string>());
    if (!dtype) out.foreign.emplace(tensor, dtype_name->get<std::string>());
    if (!dtype && !is_bytes) continue;
    uint64_t bytes = dtype ? static_cast<uint64_t>(SizeOf(*dtype)) : 1;
    for (const int64_t extent : stored.shape) {
      if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes)) bytes = UINT64_MAX;
      if (bytes == UINT64_MAX) break;
    }
    if (bytes != end - begin) {
      return InvalidArgument(where + ": shape " + ShapeText(stored.shape) + " of " +
                             dtype_name->get<std::string>() + " does not fill its " +
                             std::to_string(end - begin) + " bytes");
    }
    stored.dtype = dtype.value_or(DType::kFloat32);
    stored.bytes = data.subspan(begin, end - begin);
    stored.file = name;
    (is_bytes ? out.bytes : out.tensors).emplace(tensor, std::move(stored));
  }
  JANUS_RETURN_IF_ERROR(RefuseOverlaps(name, std::move(extents)));
  return out;
}

Result<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& folder) {
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint(folder));
  const std::string index = folder + "/" + kIndex;
  if (access(index.c_str(), F_OK) == 0) {
    JANUS_RETURN_IF_ERROR(checkpoint->ReadIndex(index));
  } else if (access((folder + "/" + kSingle).c_str(), F_OK) == 0) {
    JANUS_ASSIGN_OR_RETURN([[maybe_unused]] const File* only, checkpoint->Map(kSingle));
  } else {
    return NotFound(folder + ": neither " + kSingle + " nor " + kIndex +
                    " is there; --model wants a Hugging Face checkpoint folder");
  }
  return checkpoint;
}

Status Checkpoint::ReadIndex(const std::string& path) {
  JANUS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  // Depth 2 has the fields of weight_map and of metadata. No tensor has the name of one of these.
  const auto& [index, repeated] = ParseOnce(text, 2);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return InvalidArgument(path + ": not a JSON object with a weight_map");
  }
  const json& weight_map = index["weight_map"];
  if (weight_map.empty()) {
    return InvalidArgument(path + ": its weight_map is empty; was the file made completely?");
  }
  if (repeated) return InvalidArgument(path + ": names tensor '" + *repeated + "' twice");
  for (const auto& [tensor, file] : weight_map.items()) {
    if (!file.is_string())
      return InvalidArgument(path + ": weight_map of '" + tensor + "' is not a file name");
    const auto name = file.get<std::string>();
    if (name.find('/') != std::string::npos) {
      return InvalidArgument(path + ": '" + name + "' of tensor '" + tensor +
                             "' is not in the same folder");
    }
    shard_of_.emplace(tensor, name);
    if (opened_.contains(name)) continue;
    // A shard that is missing is an error only for a role that needs it.
    Result<OpenedFile> opened = OpenedFile::Open(folder_ + "/" + name);
    if (opened.ok()) opened_.emplace(name, *std::move(opened));
  }
  return OkStatus();
}

bool Checkpoint::Has(std::string_view tensor) const {
  if (!shard_of_.empty()) return shard_of_.find(tensor) != shard_of_.end();
  const auto only = files_.find(kSingle);
  if (only == files_.end()) return false;
  const SafetensorsHeader& header = only->second.header;
  return header.tensors.contains(tensor) || header.bytes.contains(tensor) ||
         header.foreign.contains(tensor);
}

Result<const Checkpoint::File*> Checkpoint::Map(const std::string& name) {
  if (const auto known = files_.find(name); known != files_.end()) return &known->second;
  const std::string path = folder_ + "/" + name;
  auto opened = opened_.extract(name);
  if (opened.empty()) {
    // It was not there when the folder was opened.
    JANUS_ASSIGN_OR_RETURN(OpenedFile late, OpenedFile::Open(path));
    opened_.emplace(name, std::move(late));
    opened = opened_.extract(name);
  }
  File file;
  JANUS_ASSIGN_OR_RETURN(file.mapping, MappedFile::Map(std::move(opened.mapped())));
  JANUS_ASSIGN_OR_RETURN(file.header, ParseSafetensors(file.mapping->bytes(), path));
  return &(files_[name] = std::move(file));
}

Result<std::pair<const Checkpoint::File*, std::string>> Checkpoint::FileOf(
    std::string_view tensor) {
  std::string name = kSingle;
  if (!shard_of_.empty()) {
    const auto shard = shard_of_.find(tensor);
    if (shard == shard_of_.end()) {
      return InvalidArgument(folder_ + "/" + kIndex + ": no tensor '" + std::string(tensor) +
                             "'; is config.json of the same model?");
    }
    name = shard->second;
  }
  JANUS_ASSIGN_OR_RETURN(const File* file, Map(name));
  return std::pair(file, name);
}

Result<StoredTensor> Checkpoint::FindBytes(std::string_view tensor) {
  JANUS_ASSIGN_OR_RETURN(const auto in, FileOf(tensor));
  const auto& [file, name] = in;
  const auto found = file->header.bytes.find(tensor);
  if (found != file->header.bytes.end()) return found->second;
  const std::string what = folder_ + "/" + name + ": tensor '" + std::string(tensor) + "' is ";
  const auto numbers = file->header.tensors.find(tensor);
  const auto foreign = file->header.foreign.find(tensor);
  if (numbers != file->header.tensors.end()) {
    return InvalidArgument(what + "of type " + std::string(StoredName(numbers->second.dtype)) +
                           ", where config.json's quantization_config asks for mxfp4 (U8); remove "
                           "quantization_config if the weights are not quantized");
  }
  if (foreign != file->header.foreign.end()) {
    return InvalidArgument(what + "of type " + foreign->second +
                           ", where config.json's quantization_config asks for mxfp4 (U8); remove "
                           "quantization_config if the weights are not quantized");
  }
  return InvalidArgument(folder_ + "/" + name + ": no tensor '" + std::string(tensor) +
                         "'; is config.json of the same model?");
}

Result<StoredTensor> Checkpoint::Find(std::string_view tensor) {
  JANUS_ASSIGN_OR_RETURN(const auto in, FileOf(tensor));
  const auto& [file, name] = in;
  const auto found = file->header.tensors.find(tensor);
  if (found != file->header.tensors.end()) return found->second;
  const std::string where = folder_ + "/" + name + ": ";
  if (const auto foreign = file->header.foreign.find(tensor);
      foreign != file->header.foreign.end()) {
    return InvalidArgument(where + "tensor '" + std::string(tensor) + "' is of type " +
                           foreign->second +
                           "; F32, BF16, F16 and F8_E4M3 are served, and U8 where config.json's "
                           "quantization_config says mxfp4");
  }
  return InvalidArgument(where + "no tensor '" + std::string(tensor) +
                         "'; is config.json of the same model?");
}

}  // namespace janus::dataplane
