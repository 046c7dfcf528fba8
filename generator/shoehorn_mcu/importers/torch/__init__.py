"""The importer of PyTorch's programs and modules, which go through ONNX."""
