"""Ops in the vocabulary of ONNX as ops of the IR: what the importers of all formats share."""
