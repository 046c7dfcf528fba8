"""MLPerf Tiny: a runner that speaks only the public text protocol, and the folder of a submission."""
