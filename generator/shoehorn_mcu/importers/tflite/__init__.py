"""The importer of .tflite files."""
