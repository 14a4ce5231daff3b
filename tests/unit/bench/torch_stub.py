"""The names of torch and transformers that the scripts use when they are imported."""

import sys
import types


def install() -> types.ModuleType:
    torch = types.ModuleType("torch")
    torch.bfloat16, torch.float32, torch.Tensor, torch.dtype, torch.__version__ = "bf16", "fp32", object, str, "stub"
    torch.inference_mode = lambda: lambda function: function
    torch.nn, torch.cuda = types.ModuleType("torch.nn"), types.SimpleNamespace()
    torch.nn.functional = types.ModuleType("torch.nn.functional")
    attention = types.ModuleType("torch.nn.attention")
    backends = ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH")
    attention.SDPBackend = types.SimpleNamespace(**{name: types.SimpleNamespace(name=name) for name in backends})
    attention.sdpa_kernel = None
    transformers = types.ModuleType("transformers")
    transformers.PreTrainedModel = object
    sys.modules |= {"torch": torch, "torch.nn": torch.nn, "torch.nn.functional": torch.nn.functional,
                    "torch.nn.attention": attention, "transformers": transformers}
    return torch
