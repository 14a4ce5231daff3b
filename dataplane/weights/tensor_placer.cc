#include "dataplane/weights/tensor_placer.h"

#include <utility>

namespace janus::dataplane {
Status TensorPlacer::Place(Tensor& tensor, int64_t elements) {
  if (tensor.data == nullptr) return OkStatus();
  if (stop_.stop_requested()) return Cancelled("loading was aborted");
  const auto [at, is_new] = placed_.emplace(tensor.data, nullptr);
  if (is_new && known_ != nullptr) {
    if (const auto known = known_->find(tensor.data); known != known_->end()) {
      at->second = known->second;
    }
  }
  const auto bytes = static_cast<size_t>(BytesOf(tensor.dtype, elements));
  if (at->second == nullptr) {
    JANUS_ASSIGN_OR_RETURN(kernels::Buffer copy, uploader_.Load(tensor.data, bytes));
    at->second = std::make_shared<const kernels::Buffer>(std::move(copy));
  }
  if (at->second->size() < bytes) {
    return InvalidArgument("two tensors of different size lie at one address");
  }
  tensor.data = at->second->data();
  return OkStatus();
}

Status TensorPlacer::PlaceMatrix(Tensor& tensor, int64_t outputs, int64_t inputs) {
  if (tensor.scales != nullptr) {
    const bool is_mxfp4 = tensor.dtype == DType::kMxfp4;
    Tensor scales{tensor.scales, is_mxfp4 ? DType::kFloat8E4M3 : DType::kFloat32};
    JANUS_RETURN_IF_ERROR(Place(scales, is_mxfp4 ? outputs * inputs / kMxBlock
                                                 : ScaleBlocks(outputs) * ScaleBlocks(inputs)));
    tensor.scales = scales.data;
  }
  return Place(tensor, outputs * inputs);
}

Status TensorPlacer::Place(FfnTensors& ffn, int64_t hidden, int64_t intermediate) {
  JANUS_RETURN_IF_ERROR(PlaceMatrix(ffn.gate, intermediate, hidden));
  JANUS_RETURN_IF_ERROR(PlaceMatrix(ffn.up, intermediate, hidden));
  JANUS_RETURN_IF_ERROR(Place(ffn.gate_bias, intermediate));
  JANUS_RETURN_IF_ERROR(Place(ffn.up_bias, intermediate));
  JANUS_RETURN_IF_ERROR(Place(ffn.down_bias, hidden));
  return PlaceMatrix(ffn.down, hidden, intermediate);
}

}  // namespace janus::dataplane
