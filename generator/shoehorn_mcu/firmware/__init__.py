"""Models and a board in, the written folder out: the road from file to folder, one model or several."""
