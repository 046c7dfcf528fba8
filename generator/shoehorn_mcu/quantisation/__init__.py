"""Post-training quantisation: a float32 model and samples in, an int8 .onnx with its fidelity out."""

from shoehorn_mcu.quantisation.fault import QuantizeError
from shoehorn_mcu.quantisation.runtime import Method
from shoehorn_mcu.quantisation.samples import Samples
from shoehorn_mcu.quantisation.steps import (
    Bits,
    Gain,
    Kept,
    Quantized,
    Settings,
    quantize_model,
    quantized,
    quantized_file,
    write,
)
