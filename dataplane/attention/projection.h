#pragma once

#include "common/dtype.h"
#include "common/status.h"
#include "dataplane/weights/tensor.h"
#include "kernels/kernels.h"

namespace janus::dataplane {

// y[t,n] = sum_k x[t,k] * weight[n,k] + bias[n] in fp32, x [count,inputs] without gaps.
struct Projection {
  const void* x = nullptr;
  DType x_dtype = DType::kFloat32;
  int count = 0;
  int64_t inputs = 0;
  int64_t outputs = 0;
  float* y = nullptr;
  int64_t y_stride = 0;  // 0: outputs
  bool accumulate = false;
  Tensor bias = {};  // null: none
};
Status Project(const kernels::Stream& stream, const Tensor& weight, const Projection& projection);

// RMSNorm of `groups` pieces of `size` elements in every row.
struct Norming {
  const float* x = nullptr;
  int64_t x_stride = 0;  // 0: groups*size
  void* y = nullptr;
  DType y_dtype = DType::kFloat32;
  int64_t y_stride = 0;
  int count = 0;
  int64_t groups = 1;
  int64_t size = 0;
  float epsilon = 0.0f;
};
Status Norm(const kernels::Stream& stream, const Tensor& weight, const Norming& norming);

}  // namespace janus::dataplane
