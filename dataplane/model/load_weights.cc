#include "dataplane/model/load_weights.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "dataplane/model/cast.h"
#include "dataplane/model/strided.h"
#include "dataplane/model/tensor_names.h"

namespace janus::dataplane {
namespace {

// The name of the scales of an fp8 tensor "x.weight".
std::string ScalesOf(const std::string& name) {
  return name + "_scale_inv";
}

// Scales of "x.weight" in mxfp4 are named "x.weight_scale".
constexpr char kScale[] = "_scale";

// First all tensors are named (Add), then all are read (Read). So the total is known before
// reading.
template <class Weights>
class Reader {
 public:
  Reader(Loaded<Weights>& loaded, const ModelDescription& model,
         const Loaded<Weights>* known = nullptr)
      : loaded_(loaded),
        dtype_(model.dtype),
        has_fp8_(model.has_fp8_weights),
        mxfp4_(model.mxfp4),
        known_(known) {}

  // `to`: the number format in memory.
  Status Add(const std::string& name, std::vector<int64_t> shape, DType to, Tensor& out) {
    if (Share(name, out)) return OkStatus();
    if (to == DType::kMxfp4) return AddMxfp4(name, shape, out);
    if (mxfp4_ != Mxfp4Layout::kNone && loaded_.checkpoint->Has(name + kScale)) {
      return InvalidArgument("tensor '" + name + kScale +
                             "' is in the checkpoint: only routed experts are served in mxfp4; "
                             "what quantizes a model has to leave out all else (its list 'ignore' "
                             "or 'exclude')");
    }
    JANUS_ASSIGN_OR_RETURN(StoredTensor stored, Find(name, shape));
    const bool is_fp8 = stored.dtype == DType::kFloat8E4M3;
    if (to == DType::kFloat8E4M3 && !is_fp8) return NotFp8(name, stored);
    if (is_fp8 && !has_fp8_) return UnexpectedFp8(name, stored);
    total_ += stored.bytes.size();
    Entry entry{name, std::move(stored), {}, to, &out};
    if (is_fp8) {
      if (shape.size() != 2) {
        return InvalidArgument(entry.stored.file + ": tensor '" + name +
                               "' is of type F8_E4M3 and no matrix; want a scale for each block");
      }
      JANUS_ASSIGN_OR_RETURN(entry.scales,
                             Find(ScalesOf(name), {ScaleBlocks(shape[0]), ScaleBlocks(shape[1])}));
      if (entry.scales.dtype == DType::kFloat8E4M3) {
        return InvalidArgument(entry.scales.file + ": tensor '" + ScalesOf(name) +
                               "' is of type F8_E4M3; scales are F32, BF16 or F16");
      }
      total_ += entry.scales.bytes.size();
    }
    tensors_.push_back(std::move(entry));
    return OkStatus();
  }
  Status Add(const std::string& name, std::vector<int64_t> shape, Tensor& out) {
    return Add(name, std::move(shape), dtype_, out);
  }

  bool HasTensor(const std::string& name) const { return loaded_.checkpoint->Has(name); }

  // Adds `name` as the rows from `first_row` on in part `index` of the tensor `whole`, which has
  // the shape [n, rows, columns].
  Status AddPart(const std::string& name, const std::string& whole,
                 const std::array<int64_t, 3>& whole_shape, int64_t index, int64_t first_row,
                 std::vector<int64_t> shape, DType to, Tensor& out) {
    if (Share(name, out)) return OkStatus();
    JANUS_ASSIGN_OR_RETURN(StoredTensor stored,
                           Find(whole, {whole_shape.begin(), whole_shape.end()}));
    if (stored.dtype == DType::kFloat8E4M3 || to == DType::kFloat8E4M3 || to == DType::kMxfp4) {
      return InvalidArgument(stored.file + ": tensor '" + whole +
                             "' holds all experts of a layer (fused), which is served of weights "
                             "that are not quantized; want a tensor for each expert");
    }
    const auto size = static_cast<size_t>(SizeOf(stored.dtype));
    const auto row_bytes = static_cast<size_t>(whole_shape[2]) * size;
    const auto row = static_cast<size_t>(index * whole_shape[1] + first_row);
    stored.bytes = stored.bytes.subspan(row * row_bytes, static_cast<size_t>(shape[0]) * row_bytes);
    stored.shape = std::move(shape);
    total_ += stored.bytes.size();
    tensors_.push_back({name, std::move(stored), {}, to, &out});
    return OkStatus();
  }

  // Adds `part` of the tensor `whole` as `name`.
  Status AddStrided(const std::string& name, const std::string& whole,
                    const std::vector<int64_t>& whole_shape, const Strided& part, DType to,
                    Tensor& out) {
    if (Share(name, out)) return OkStatus();
    JANUS_ASSIGN_OR_RETURN(StoredTensor stored, Find(whole, whole_shape));
    if (stored.dtype == DType::kFloat8E4M3) return UnexpectedFp8(whole, stored);
    stored.shape = {part.rows, part.columns};
    total_ += static_cast<uint64_t>(part.rows * part.columns * SizeOf(stored.dtype));
    tensors_.push_back({name, std::move(stored), {}, to, &out, "", part});
    return OkStatus();
  }

  // Adds a matrix in mxfp4 as `name`: parts, in bytes, of the tensors "<whole>_blocks"
  // [n, rows, blocks, 16] and "<whole>_scales" [n, rows, blocks].
  Status AddBlocks(const std::string& name, const std::string& whole,
                   const std::array<int64_t, 3>& whole_shape, const Strided& weights,
                   const Strided& scales, Tensor& out) {
    if (Share(name, out)) return OkStatus();
    const auto [n, rows, blocks] = whole_shape;
    Entry entry{name, {}, {}, DType::kMxfp4, &out, whole + "_scales", weights, scales};
    JANUS_ASSIGN_OR_RETURN(entry.stored,
                           FindBytes(whole + "_blocks", {n, rows, blocks, kMxBlock / 2}));
    JANUS_ASSIGN_OR_RETURN(entry.scales, FindBytes(whole + "_scales", {n, rows, blocks}));
    entry.scales.shape = {scales.rows, scales.columns};
    total_ += static_cast<uint64_t>(weights.rows * weights.columns + scales.rows * scales.columns);
    tensors_.push_back(std::move(entry));
    return OkStatus();
  }

  // The tensor must equal the one added as `as`, byte for byte, if both have one format.
  Status ExpectEqual(const std::string& name, const std::string& as,
                     const std::vector<int64_t>& shape, const std::string& otherwise) {
    JANUS_ASSIGN_OR_RETURN(const StoredTensor one, Find(name, shape));
    JANUS_ASSIGN_OR_RETURN(const StoredTensor other, Find(as, shape));
    const bool equal = one.dtype == other.dtype && one.bytes.size() == other.bytes.size() &&
                       std::memcmp(one.bytes.data(), other.bytes.data(), one.bytes.size()) == 0;
    if (equal) return OkStatus();
    return InvalidArgument(one.file + ": tensor '" + name + "' differs from '" + as + "'" +
                           otherwise);
  }

  Status Read(const LoadProgress& progress, std::stop_token stop,
              const TensorMover& move = nullptr) {
    progress_ = &progress;
    stop_ = std::move(stop);
    for (const Entry& entry : tensors_) {
      HeldTensor held;
      held.tensor.dtype = entry.to;
      JANUS_RETURN_IF_ERROR(entry.part                                 ? ReadPart(entry, held)
                            : entry.to == DType::kMxfp4                ? ReadMxfp4(entry, held)
                            : entry.stored.dtype != DType::kFloat8E4M3 ? ReadPlain(entry, held)
                            : entry.to == DType::kFloat8E4M3           ? ReadFp8(entry, held)
                                                                       : Dequantize(entry, held));
      if (move) JANUS_RETURN_IF_ERROR(move(held));
      *entry.out = held.tensor;
      Keep(entry.name, held);
    }
    return OkStatus();
  }

 private:
  static constexpr size_t kChunk = size_t{16} << 20;

  struct Entry {
    std::string name;
    StoredTensor stored;
    StoredTensor scales;  // for fp8 and mxfp4
    DType to;
    Tensor* out;
    std::string scales_name = "";  // for mxfp4
    // Of a matrix within `stored` and `scales`, whose shapes are the matrix's.
    std::optional<Strided> part = {};
    std::optional<Strided> scales_part = {};
  };

  Status NotFp8(const std::string& name, const StoredTensor& stored) const {
    return InvalidArgument(
        stored.file + ": tensor '" + name + "' is of type " +
        std::string(StoredName(stored.dtype)) +
        ", where config.json's quantization_config says fp8 (F8_E4M3). If the weights are not "
        "quantized, remove quantization_config from config.json. If they are, its list of modules "
        "that are not converted names some routed experts: these are all in fp8 or none is");
  }
  Status UnexpectedFp8(const std::string& name, const StoredTensor& stored) const {
    const std::string folder = stored.file.substr(0, stored.file.rfind('/') + 1);
    std::string what = stored.file + ": tensor '" + name +
                       "' is of type F8_E4M3, and config.json has no quantization_config; ";
    std::error_code error;
    if (std::filesystem::exists(folder + "hf_quant_config.json", error)) {
      what +=
          "hf_quant_config.json is there, but is not read: write what it says into config.json "
          "as ";
    } else {
      what += "add what the checkpoint was published with, as ";
    }
    return InvalidArgument(
        what +
        R"("quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]})");
  }

  // Adds a matrix of a routed expert.
  Status AddMxfp4(const std::string& name, const std::vector<int64_t>& shape, Tensor& out) {
    const bool is_packed = mxfp4_ == Mxfp4Layout::kCompressedTensors;
    const std::string packed = is_packed ? name + "_packed" : name;
    if (is_packed && !loaded_.checkpoint->Has(packed) && loaded_.checkpoint->Has(name)) {
      return InvalidArgument("tensor '" + name + "' is in the checkpoint in place of '" + packed +
                             "': routed experts are all in mxfp4 or none is; 'ignore' may not name "
                             "some of them");
    }
    Entry entry{name, {}, {}, DType::kMxfp4, &out, name + kScale};
    JANUS_ASSIGN_OR_RETURN(entry.stored, FindBytes(packed, {shape[0], shape[1] / 2}));
    JANUS_ASSIGN_OR_RETURN(entry.scales, FindBytes(name + kScale, {shape[0], shape[1] / kMxBlock}));
    total_ += entry.stored.bytes.size() + entry.scales.bytes.size();
    tensors_.push_back(std::move(entry));
    return OkStatus();
  }

  Result<StoredTensor> FindBytes(const std::string& name, const std::vector<int64_t>& shape) {
    JANUS_ASSIGN_OR_RETURN(StoredTensor stored, loaded_.checkpoint->FindBytes(name));
    return WithShape(name, std::move(stored), shape);
  }
  Result<StoredTensor> Find(const std::string& name, const std::vector<int64_t>& shape) {
    for (const char* packed : {"_packed", "_scale_inv", "_scale", "_blocks"}) {
      if (HasTensor(name) || !HasTensor(name + packed)) continue;
      return InvalidArgument("the checkpoint has tensor '" + name + packed + "' and no '" + name +
                             "': it is quantized, and config.json's quantization_config is missing "
                             "or says another method");
    }
    JANUS_ASSIGN_OR_RETURN(StoredTensor stored, loaded_.checkpoint->Find(name));
    return WithShape(name, std::move(stored), shape);
  }
  Result<StoredTensor> WithShape(const std::string& name, StoredTensor stored,
                                 const std::vector<int64_t>& shape) {
    if (stored.shape == shape) return stored;
    return InvalidArgument(stored.file + ": tensor '" + name + "': shape " +
                           ShapeText(stored.shape) + ", config.json asks for " + ShapeText(shape));
  }

  // Calls read(begin, chunk) for a tensor's bytes, in multiples of `whole` bytes. `read` returns
  // whether all values were finite.
  template <class ReadChunk>
  Status InChunks(const std::string& name, const StoredTensor& stored, size_t whole,
                  std::string_view as, const ReadChunk& read) {
    const std::span<const std::byte> bytes = stored.bytes;
    const size_t step = std::max(kChunk / whole, size_t{1}) * whole;
    for (size_t at = 0; at < bytes.size(); at += step) {
      if (stop_.stop_requested()) return Cancelled("loading was aborted");
      const std::span<const std::byte> chunk = bytes.subspan(at, std::min(step, bytes.size() - at));
      if (!read(at, chunk)) {
        return InvalidArgument(stored.file + ": tensor '" + name + "' holds a NaN or an infinity" +
                               std::string(as) + "; the checkpoint is broken");
      }
      done_ += chunk.size();
      if (*progress_) (*progress_)(done_, total_);
    }
    return OkStatus();
  }
  std::string AsText(DType to) const { return " (as " + std::string(ToString(to)) + ")"; }

  std::byte* Allocate(uint64_t bytes, HeldTensor& held) {
    auto memory = std::make_shared_for_overwrite<std::byte[]>(bytes);
    std::byte* const at = memory.get();
    held.memory = std::move(memory);
    return at;
  }

  // Reads a part as a tensor of its own, once its elements lie together.
  Status ReadPart(const Entry& entry, HeldTensor& held) {
    const bool is_mxfp4 = entry.to == DType::kMxfp4;
    const size_t element = is_mxfp4 ? 1 : static_cast<size_t>(SizeOf(entry.stored.dtype));
    const auto size_of = [&](const Strided& part) {
      return static_cast<size_t>(part.rows * part.columns) * element;
    };
    const size_t size = size_of(*entry.part);
    const size_t scales = is_mxfp4 ? size_of(*entry.scales_part) : 0;
    Entry own = entry;
    HeldTensor together;
    if (entry.part->is_whole() && (!is_mxfp4 || entry.scales_part->is_whole())) {
      const auto first = static_cast<size_t>(entry.part->first) * element;
      own.stored.bytes = entry.stored.bytes.subspan(first, size);
      if (is_mxfp4) {
        const auto first_scale = static_cast<size_t>(entry.scales_part->first);
        own.scales.bytes = entry.scales.bytes.subspan(first_scale, scales);
      }
    } else {
      std::byte* const to = Allocate(size + scales, together);
      CopyStrided(entry.stored.bytes, element, *entry.part, to);
      if (is_mxfp4) CopyStrided(entry.scales.bytes, 1, *entry.scales_part, to + size);
      own.stored.bytes = {to, size};
      own.scales.bytes = {to + size, scales};
    }
    JANUS_RETURN_IF_ERROR(is_mxfp4 ? ReadMxfp4(own, held) : ReadPlain(own, held));
    if (held.memory == nullptr) held.memory = std::move(together.memory);  // it was not cast
    return OkStatus();
  }

  Status ReadPlain(const Entry& entry, HeldTensor& held) {
    const StoredTensor& stored = entry.stored;
    const auto from_size = static_cast<size_t>(SizeOf(stored.dtype));
    const auto to_size = static_cast<size_t>(SizeOf(entry.to));
    held.bytes = stored.bytes.size() / from_size * to_size;
    if (stored.dtype == entry.to &&
        reinterpret_cast<uintptr_t>(stored.bytes.data()) % from_size == 0) {
      held.tensor.data = stored.bytes.data();
      return InChunks(entry.name, stored, 4, "",
                      [&](size_t /*at*/, auto chunk) { return AllFinite(chunk, entry.to); });
    }
    std::byte* const to = Allocate(held.bytes, held);
    held.tensor.data = to;
    return InChunks(entry.name, stored, 4, AsText(entry.to), [&](size_t at, auto chunk) {
      return CastAndCheck(chunk, stored.dtype, to + at / from_size * to_size, entry.to);
    });
  }

  // Reads scales as fp32, [rows / 128][columns / 128].
  Status ReadScales(const Entry& entry, float* to) {
    const StoredTensor& scales = entry.scales;
    const auto size = static_cast<size_t>(SizeOf(scales.dtype));
    return InChunks(ScalesOf(entry.name), scales, 4, "", [&](size_t at, auto chunk) {
      return CastAndCheck(chunk, scales.dtype, reinterpret_cast<std::byte*>(to + at / size),
                          DType::kFloat32);
    });
  }
  size_t Scales(const Entry& entry) const {
    return entry.scales.bytes.size() / static_cast<size_t>(SizeOf(entry.scales.dtype));
  }

  // Keeps the weights as they are in the file, with their scales beside them.
  Status ReadFp8(const Entry& entry, HeldTensor& held) {
    const size_t scale_bytes = Scales(entry) * sizeof(float);
    auto* const scales = reinterpret_cast<float*>(Allocate(scale_bytes, held));
    held.tensor.data = entry.stored.bytes.data();
    held.tensor.scales = scales;
    held.bytes = entry.stored.bytes.size() + scale_bytes;
    JANUS_RETURN_IF_ERROR(ReadScales(entry, scales));
    return InChunks(entry.name, entry.stored, 1, "", [&](size_t /*at*/, auto chunk) {
      return AllFinite(chunk, DType::kFloat8E4M3);
    });
  }

  // Keeps weights and scales as they are in the file.
  Status ReadMxfp4(const Entry& entry, HeldTensor& held) {
    held.tensor.data = entry.stored.bytes.data();
    held.tensor.scales = entry.scales.bytes.data();
    held.bytes = entry.stored.bytes.size() + entry.scales.bytes.size();
    const auto* const scales = static_cast<const uint8_t*>(held.tensor.scales);
    const auto* const end = scales + entry.scales.bytes.size();
    const auto* const bad =
        std::find_if(scales, end, [](uint8_t scale) { return scale > kMaxMxScale; });
    if (bad != end) {
      const auto blocks = entry.scales.shape[1];
      return InvalidArgument(
          entry.scales.file + ": tensor '" + entry.scales_name + "' has " + std::to_string(*bad) +
          " at [" + std::to_string((bad - scales) / blocks) + "," +
          std::to_string((bad - scales) % blocks) + "], " +
          (*bad == 255 ? "which is NaN"
                       : "2 to the power of " + std::to_string(*bad - 127) +
                             ": weights under it may be beyond what BFloat16 holds") +
          "; scales up to " + std::to_string(kMaxMxScale) + " are served");
    }
    done_ += entry.scales.bytes.size();
    return InChunks(entry.name, entry.stored, 1, "", [&](size_t /*at*/, auto chunk) {
      // Every code is a valid number. This only brings the pages into memory.
      constexpr size_t kPage = 4096;
      for (size_t at = 0; at < chunk.size(); at += kPage) {
        [[maybe_unused]] const volatile std::byte first = chunk[at];
      }
      return true;
    });
  }

  Status Dequantize(const Entry& entry, HeldTensor& held) {
    const auto columns = static_cast<size_t>(entry.stored.shape[1]);
    const auto to_size = static_cast<size_t>(SizeOf(entry.to));
    const auto blocks = static_cast<size_t>(ScaleBlocks(entry.stored.shape[1]));
    std::vector<float> scales(Scales(entry));
    JANUS_RETURN_IF_ERROR(ReadScales(entry, scales.data()));
    held.bytes = entry.stored.bytes.size() * to_size;
    std::byte* const to = Allocate(held.bytes, held);
    held.tensor.data = to;
    return InChunks(entry.name, entry.stored, columns, AsText(entry.to),
                    [&](size_t at, std::span<const std::byte> chunk) {
                      bool finite = true;
                      for (size_t row = 0; row < chunk.size(); row += columns) {
                        const size_t index = (at + row) / columns;
                        finite &= DequantizeAndCheck(chunk.subspan(row, columns),
                                                     scales.data() + index / kScaleBlock * blocks,
                                                     to + (at + row) * to_size, entry.to);
                      }
                      return finite;
                    });
  }

  bool Share(const std::string& name, Tensor& out) {
    if (known_ == nullptr) return false;
    const auto at = known_->tensors.find(name);
    if (at == known_->tensors.end()) return false;
    out = at->second.tensor;
    Keep(name, at->second);
    return true;
  }

  void Keep(const std::string& name, const HeldTensor& held) {
    if (loaded_.tensors.emplace(name, held).second) loaded_.bytes += held.bytes;
  }

  Loaded<Weights>& loaded_;
  const DType dtype_;
  const bool has_fp8_;
  const Mxfp4Layout mxfp4_;
  const Loaded<Weights>* const known_;
  std::vector<Entry> tensors_;
  uint64_t total_ = 0;
  uint64_t done_ = 0;
  const LoadProgress* progress_ = nullptr;
  std::stop_token stop_;
};

std::string Weight(std::string_view name) {
  return std::string(name) + ".weight";
}

// A family's names, and what lies before them in one checkpoint.
struct CheckpointNames : TensorNames {
  std::string_view prefix = "";
  std::string Full(std::string_view name) const { return std::string(prefix) + std::string(name); }
};

Result<CheckpointNames> NamesOf(const ModelDescription& model, const Checkpoint& checkpoint) {
  const TensorNames* known = FindTensorNames(model.family);
  if (known == nullptr)
    return Unimplemented("no tensor names for model family '" + model.family + "'");
  CheckpointNames names{*known};
  const std::string prefixed =
      Weight(std::string(names.optional_prefix) + std::string(names.embedding));
  if (checkpoint.Has(prefixed)) names.prefix = names.optional_prefix;
  return names;
}

std::string InLayer(const CheckpointNames& names, int layer, std::string_view part) {
  return names.Full(names.layers) + "." + std::to_string(layer) + "." + std::string(part);
}

// `prefix` names the FFN, `intermediate` is its width, `to` its number format.
template <class Weights>
Status AddFfn(Reader<Weights>& reader, const CheckpointNames& names, const std::string& prefix,
              int64_t hidden, int64_t intermediate, DType to, FfnTensors& out) {
  const auto part = [&](std::string_view name) { return Weight(prefix + "." + std::string(name)); };
  JANUS_RETURN_IF_ERROR(reader.Add(part(names.gate), {intermediate, hidden}, to, out.gate));
  JANUS_RETURN_IF_ERROR(reader.Add(part(names.up), {intermediate, hidden}, to, out.up));
  return reader.Add(part(names.down), {hidden, intermediate}, to, out.down);
}

// Adds an expert of a family whose experts lie together, in turns: the rows (mxfp4) or columns of
// gate_up_proj are gate 0, up 0, gate 1, up 1, ... Unless it is in mxfp4, a matrix lies with its
// inputs first: gate_up_proj [experts, hidden, 2 * width], down_proj [experts, width, hidden].
Status AddExpertInTurns(Reader<ExpertWeights>& reader, const CheckpointNames& names,
                        const ModelDescription& model, int layer, int expert, FfnTensors& out) {
  const std::string all = InLayer(names, layer, names.experts);
  const std::string gate_up = all + ".gate_up_proj", down = all + ".down_proj";
  const int64_t h = model.hidden, width = model.moe.intermediate, experts = model.moe.experts;
  // The name of a part, for messages.
  const auto of = [&](const std::string& whole, const char* which) {
    return whole + " (expert " + std::to_string(expert) + which + ")";
  };
  struct Side {
    int64_t at;  // in turns
    const char* which;
    Tensor& matrix;
    Tensor& bias;
  };
  for (const Side& side :
       {Side{0, ", gate", out.gate, out.gate_bias}, Side{1, ", up", out.up, out.up_bias}}) {
    if (ExpertType(model) == DType::kMxfp4) {
      const auto rows = [&](int64_t row) {
        return Strided{(expert * 2 * width + side.at) * row, width, row, 2 * row, 1};
      };
      JANUS_RETURN_IF_ERROR(reader.AddBlocks(of(gate_up + "_blocks", side.which), gate_up,
                                             {experts, 2 * width, h / kMxBlock}, rows(h / 2),
                                             rows(h / kMxBlock), side.matrix));
    } else {
      JANUS_RETURN_IF_ERROR(reader.AddStrided(
          of(gate_up, side.which), gate_up, {experts, h, 2 * width},
          {expert * h * 2 * width + side.at, width, h, 2, 2 * width}, model.dtype, side.matrix));
    }
    JANUS_RETURN_IF_ERROR(reader.AddStrided(
        of(gate_up + "_bias", side.which), gate_up + "_bias", {experts, 2 * width},
        {expert * 2 * width + side.at, 1, width, 0, 2}, DType::kFloat32, side.bias));
  }
  if (ExpertType(model) == DType::kMxfp4) {
    const auto rows = [&](int64_t row) { return Strided{expert * h * row, h, row, row, 1}; };
    JANUS_RETURN_IF_ERROR(reader.AddBlocks(of(down + "_blocks", ""), down,
                                           {experts, h, width / kMxBlock}, rows(width / 2),
                                           rows(width / kMxBlock), out.down));
  } else {
    JANUS_RETURN_IF_ERROR(reader.AddStrided(of(down, ""), down, {experts, width, h},
                                            {expert * width * h, h, width, 1, h}, model.dtype,
                                            out.down));
  }
  return reader.AddStrided(of(down + "_bias", ""), down + "_bias", {experts, h},
                           {expert * h, 1, h, 0, 1}, DType::kFloat32, out.down_bias);
}

// Adds an expert of a family whose experts lie together with their inputs first: gate_up_proj
// [experts, hidden, 2 * width], with the gates first, and down_proj [experts, width, hidden].
Status AddExpertInputsFirst(Reader<ExpertWeights>& reader, const CheckpointNames& names,
                            const ModelDescription& model, int layer, int expert, FfnTensors& out) {
  const std::string all = InLayer(names, layer, names.experts);
  const std::string gate_up = all + ".gate_up_proj", down = all + ".down_proj";
  const int64_t h = model.hidden, width = model.moe.intermediate, experts = model.moe.experts;
  // The name of a part, for messages.
  const auto of = [&](const std::string& whole, const char* which) {
    return whole + " (expert " + std::to_string(expert) + which + ")";
  };
  const auto add_side = [&](int64_t at, const char* which, Tensor& matrix) {
    return reader.AddStrided(of(gate_up, which), gate_up, {experts, h, 2 * width},
                             {expert * h * 2 * width + at, width, h, 1, 2 * width}, model.dtype,
                             matrix);
  };
  JANUS_RETURN_IF_ERROR(add_side(0, ", gate", out.gate));
  JANUS_RETURN_IF_ERROR(add_side(width, ", up", out.up));
  return reader.AddStrided(of(down, ""), down, {experts, width, h},
                           {expert * width * h, h, width, 1, h}, model.dtype, out.down);
}

// Adds an expert of a layer. It has its own tensors or, in the format of transformers 5, a part of
// two tensors that hold all experts of the layer: gate_up_proj [experts, 2 * intermediate, hidden],
// with the gates first, and down_proj [experts, hidden, intermediate].
Status AddExpert(Reader<ExpertWeights>& reader, const CheckpointNames& names,
                 const ModelDescription& model, int layer, int expert, FfnTensors& out) {
  const std::string all = InLayer(names, layer, names.experts);
  const std::string own = all + "." + std::to_string(expert);
  const int64_t h = model.hidden, width = model.moe.intermediate, experts = model.moe.experts;
  const DType to = ExpertType(model);
  if (names.expert_tensors == ExpertTensors::kInTurns) {
    return AddExpertInTurns(reader, names, model, layer, expert, out);
  }
  if (names.expert_tensors == ExpertTensors::kInputsFirst) {
    return AddExpertInputsFirst(reader, names, model, layer, expert, out);
  }
  const std::string gate_up = all + ".gate_up_proj", down = all + ".down_proj";
  if (!reader.HasTensor(gate_up)) return AddFfn(reader, names, own, h, width, to, out);
  const auto part = [&](std::string_view name) { return Weight(own + "." + std::string(name)); };
  JANUS_RETURN_IF_ERROR(reader.AddPart(part(names.gate), gate_up, {experts, 2 * width, h}, expert,
                                       0, {width, h}, to, out.gate));
  JANUS_RETURN_IF_ERROR(reader.AddPart(part(names.up), gate_up, {experts, 2 * width, h}, expert,
                                       width, {width, h}, to, out.up));
  return reader.AddPart(part(names.down), down, {experts, h, width}, expert, 0, {h, width}, to,
                        out.down);
}

// Adds the tensors of one layer, by their names within it.
class LayerAdder {
 public:
  LayerAdder(Reader<AttentionWeights>& reader, const CheckpointNames& names, int layer)
      : reader_(reader), names_(names), layer_(layer) {}
  Status operator()(std::string_view name, std::vector<int64_t> shape, Tensor& out) const {
    return reader_.Add(Weight(InLayer(names_, layer_, name)), std::move(shape), out);
  }
  Status Bias(std::string_view name, int64_t outputs, Tensor& out) const {
    return reader_.Add(InLayer(names_, layer_, name) + ".bias", {outputs}, out);
  }
  // By the name in full, in Float32.
  Status InFull(std::string_view name, std::vector<int64_t> shape, Tensor& out) const {
    return reader_.Add(InLayer(names_, layer_, name), std::move(shape), DType::kFloat32, out);
  }

 private:
  Reader<AttentionWeights>& reader_;
  const CheckpointNames& names_;
  const int layer_;
};

Status AddGrouped(const LayerAdder& add, const CheckpointNames& names,
                  const ModelDescription& model, AttentionLayerWeights& layer) {
  const AttentionDescription& a = model.attention;
  const int64_t h = model.hidden;
  const int64_t q = int64_t{a.heads} * a.head_dim;
  const int64_t kv = int64_t{a.kv_heads} * a.head_dim;
  JANUS_RETURN_IF_ERROR(add(names.query, {q, h}, layer.q));
  JANUS_RETURN_IF_ERROR(add(names.key, {kv, h}, layer.k));
  JANUS_RETURN_IF_ERROR(add(names.value, {kv, h}, layer.v));
  JANUS_RETURN_IF_ERROR(add(names.output, {h, q}, layer.o));
  if (a.has_bias) {
    JANUS_RETURN_IF_ERROR(add.Bias(names.query, q, layer.q_bias));
    JANUS_RETURN_IF_ERROR(add.Bias(names.key, kv, layer.k_bias));
    JANUS_RETURN_IF_ERROR(add.Bias(names.value, kv, layer.v_bias));
  }
  if (a.has_output_bias) JANUS_RETURN_IF_ERROR(add.Bias(names.output, h, layer.o_bias));
  if (a.has_sinks) JANUS_RETURN_IF_ERROR(add.InFull(names.sinks, {a.heads}, layer.sinks));
  if (!HasNormWeights(a.norm)) return OkStatus();
  const bool each = a.norm == QueryKeyNorm::kEachHead;
  JANUS_RETURN_IF_ERROR(add(names.query_norm, {each ? a.head_dim : q}, layer.q_norm));
  return add(names.key_norm, {each ? a.head_dim : kv}, layer.k_norm);
}

Status AddLatent(const LayerAdder& add, const CheckpointNames& names, const ModelDescription& model,
                 AttentionLayerWeights& layer) {
  const AttentionDescription& a = model.attention;
  const LatentDescription& l = *a.latent;
  const int64_t h = model.hidden;
  const int64_t q = int64_t{a.heads} * a.head_dim;
  if (l.query_rank > 0) {
    JANUS_RETURN_IF_ERROR(add(names.query_down, {l.query_rank, h}, layer.q_a));
    JANUS_RETURN_IF_ERROR(add(names.query_down_norm, {l.query_rank}, layer.q_a_norm));
    JANUS_RETURN_IF_ERROR(add(names.query_up, {q, l.query_rank}, layer.q));
  } else {
    JANUS_RETURN_IF_ERROR(add(names.query, {q, h}, layer.q));
  }
  JANUS_RETURN_IF_ERROR(add(names.latent, {l.rank + a.rope.rotary_dim, h}, layer.kv_a));
  JANUS_RETURN_IF_ERROR(add(names.latent_norm, {l.rank}, layer.kv_a_norm));
  JANUS_RETURN_IF_ERROR(
      add(names.latent_up, {int64_t{a.heads} * (a.nope_dim() + l.value_dim), l.rank}, layer.kv_b));
  return add(names.output, {h, int64_t{a.heads} * l.value_dim}, layer.o);
}

template <class Weights>
Status AddGate(Reader<Weights>& reader, const CheckpointNames& names, const ModelDescription& model,
               int layer, Tensor& gate, Tensor& bias) {
  JANUS_RETURN_IF_ERROR(reader.Add(Weight(InLayer(names, layer, names.moe_gate)),
                                   {model.moe.experts, model.hidden}, gate));
  if (!model.moe.has_gate_bias()) return OkStatus();
  return reader.Add(InLayer(names, layer, names.moe_gate_bias), {model.moe.experts},
                    DType::kFloat32, bias);
}

}  // namespace

Result<Loaded<AttentionWeights>> LoadAttention(const std::string& folder,
                                               const ModelDescription& model,
                                               const LoadProgress& progress, std::stop_token stop,
                                               const TensorMover& move, bool with_gates) {
  Loaded<AttentionWeights> loaded;
  JANUS_ASSIGN_OR_RETURN(loaded.checkpoint, Checkpoint::Open(folder));
  JANUS_ASSIGN_OR_RETURN(const CheckpointNames names, NamesOf(model, *loaded.checkpoint));
  Reader reader(loaded, model);
  const int64_t h = model.hidden;
  AttentionWeights& w = loaded.weights;
  JANUS_RETURN_IF_ERROR(
      reader.Add(Weight(names.Full(names.embedding)), {model.vocab, h}, w.embedding));
  JANUS_RETURN_IF_ERROR(reader.Add(Weight(names.Full(names.final_norm)), {h}, w.final_norm));
  const std::string head = Weight(names.Full(names.lm_head));
  if (!model.tied_embeddings) {
    JANUS_RETURN_IF_ERROR(reader.Add(head, {model.vocab, h}, w.lm_head));
  } else if (reader.HasTensor(head)) {
    JANUS_RETURN_IF_ERROR(reader.ExpectEqual(
        head, Weight(names.Full(names.embedding)), {model.vocab, h},
        ", though config.json's tie_word_embeddings is true; set it to false to use '" + head +
            "', or remove that tensor"));
  }
  w.layers.resize(static_cast<size_t>(model.layers));
  for (int l = 0; l < model.layers; ++l) {
    AttentionLayerWeights& layer = w.layers[static_cast<size_t>(l)];
    const LayerAdder add(reader, names, l);
    JANUS_RETURN_IF_ERROR(add(names.input_norm, {h}, layer.input_norm));
    JANUS_RETURN_IF_ERROR(model.attention.latent ? AddLatent(add, names, model, layer)
                                                 : AddGrouped(add, names, model, layer));
    JANUS_RETURN_IF_ERROR(add(names.post_norm, {h}, layer.post_norm));
    if (model.IsDense(l)) {
      JANUS_RETURN_IF_ERROR(AddFfn(reader, names, InLayer(names, l, names.dense), h,
                                   model.dense_intermediate, model.dtype, layer.ffn));
    } else if (model.moe.shared_intermediate > 0) {
      JANUS_RETURN_IF_ERROR(AddFfn(reader, names, InLayer(names, l, names.shared), h,
                                   model.moe.shared_intermediate, model.dtype, layer.ffn));
      if (model.moe.has_shared_gate) {
        JANUS_RETURN_IF_ERROR(add(names.shared_gate, {1, h}, layer.shared_gate));
      }
    }
    if (with_gates && !model.IsDense(l)) {
      JANUS_RETURN_IF_ERROR(AddGate(reader, names, model, l, layer.moe_gate, layer.moe_gate_bias));
    }
  }
  JANUS_RETURN_IF_ERROR(reader.Read(progress, std::move(stop), move));
  if (move) loaded.checkpoint.reset();
  if (model.tied_embeddings) w.lm_head = w.embedding;
  return loaded;
}

Result<Loaded<ExpertWeights>> LoadExperts(const std::string& folder, const ModelDescription& model,
                                          const Placement& placement, Rank rank,
                                          const LoadProgress& progress, std::stop_token stop,
                                          const Loaded<ExpertWeights>* known) {
  Loaded<ExpertWeights> loaded;
  if (known != nullptr) {
    loaded.checkpoint = known->checkpoint;
  } else {
    JANUS_ASSIGN_OR_RETURN(loaded.checkpoint, Checkpoint::Open(folder));
  }
  JANUS_ASSIGN_OR_RETURN(const CheckpointNames names, NamesOf(model, *loaded.checkpoint));
  Reader reader(loaded, model, known);
  const int first = placement.first_slot(rank);
  const int slots = placement.slots_of_instance[static_cast<size_t>(rank.value)];
  loaded.weights.layers.resize(static_cast<size_t>(model.moe_layers()));
  for (int l = 0, moe = 0; l < model.layers; ++l) {
    if (model.IsDense(l)) continue;
    ExpertLayerWeights& layer = loaded.weights.layers[static_cast<size_t>(moe)];
    JANUS_RETURN_IF_ERROR(AddGate(reader, names, model, l, layer.gate, layer.gate_bias));
    layer.slots.resize(static_cast<size_t>(slots));
    for (int slot = 0; slot < slots; ++slot) {
      const uint16_t expert = placement.at(moe, first + slot);
      if (expert == Placement::kEmpty) continue;
      JANUS_RETURN_IF_ERROR(AddExpert(reader, names, model, l, expert,
                                      layer.slots[static_cast<size_t>(slot)].emplace()));
    }
    ++moe;
  }
  JANUS_RETURN_IF_ERROR(reader.Read(progress, std::move(stop)));
  return loaded;
}

}  // namespace janus::dataplane
