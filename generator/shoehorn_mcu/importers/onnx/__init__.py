"""The importer of .onnx files."""
