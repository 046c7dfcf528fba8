"""The tests of ONNX's own suite that Shoehorn does not pass, by cause.

What a model's ends say is found by rule (`of_ends`). The rest is in `NAMES`, as patterns of fnmatch.
`test_onnx_backend.py` runs every one of them and fails for one that passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from onnx import ModelProto, TensorProto

_ELEMENTS = {
    "STRING": "strings",
    "DOUBLE": "double",
    "BFLOAT16": "bfloat16",
    **dict.fromkeys(("INT4", "UINT4", "INT2", "UINT2", "FLOAT4E2M1"), "elements of 4 bits and less"),
    **dict.fromkeys(("COMPLEX64", "COMPLEX128"), "complex numbers"),
}
_TRAINING = ("ai.onnx.preview.training", "ai.onnx.training")
_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")

NAMES: Mapping[str, str] = {
    "shapes that depend on values": """
        test_blackmanwindow* test_compress_* test_constantofshape_* test_hammingwindow* test_hannwindow*
        test_melweightmatrix test_nonmaxsuppression_* test_nonzero_example test_range_* test_unique_*
    """,
    "training": "test_batchnorm_*_training_mode test_training_dropout*",
    "sequences": "test_sequence_model[1-6]",
    "optional values": "test_optional_get_element_tensor",
    "conditions that are computed": "test_if",
    "loops": "test_loop11",
    "a Scan of opset 8, whose batch is lost": "test_scan_sum",
    "files of images": "test_image_decoder_*",
    "counts of words": "test_tfidfvectorizer_*",
    "no kernel yet: DeformConv": "test_*deform_conv_*",
    "no kernel yet: RoiAlign": "test_roialign_*",
    "no kernel yet: Col2Im in three dimensions": "test_col2im_5d",
    "no kernel yet: ConvTranspose in three dimensions": "test_convtranspose_3d",
    "no kernel yet: MaxPool with places, and MaxUnpool": "test_maxpool_with_argmax_* test_maxunpool_*",
    "no kernel yet: STFT": "test_stft*",
    "no kernel yet: TensorScatter": "test_tensorscatter*",
    "no kernel yet: AffineGrid in three dimensions": "test_affine_grid_3d*",
    "another result than ONNX Runtime's": """
        test_resize_downsample_scales_cubic_align_corners test_resize_downsample_scales_linear_align_corners
    """,
    "stored results that are rounding errors": "test_dft_inverse test_dft_inverse_opset19",
}


def of_name(name: str) -> str:
    """Why the test of this name is left out; empty where it is not."""
    for cause, patterns in NAMES.items():
        if any(fnmatchcase(name, pattern) for pattern in patterns.split()):
            return cause
    return ""


def of_ends(model: ModelProto) -> str:
    """What the model's domain, inputs and outputs need that no firmware has; empty where there is nothing."""
    domains = {node.domain for node in model.graph.node}
    if domains & set(_TRAINING):
        return "training"
    if any(domain.startswith("ai.onnx.ml") for domain in domains):
        return "trees, encoders and the like (ai.onnx.ml)"
    ends = [*model.graph.input, *model.graph.output]
    for kind in (end.type.WhichOneof("value") for end in ends):
        if kind != "tensor_type":
            return {"sequence_type": "sequences", "optional_type": "optional values"}.get(kind or "", str(kind))
    for end in ends:
        name = TensorProto.DataType.Name(end.type.tensor_type.elem_type)
        if name in _ELEMENTS or name.startswith("FLOAT8"):
            return _ELEMENTS.get(name, "elements of float8")
    if any(node.op_type in _RANDOM for node in model.graph.node):
        return "random numbers"
    return ""
