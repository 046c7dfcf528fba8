"""Plan to text: every file of the written folder is decided here, in memory; `bundle.write` alone writes."""
