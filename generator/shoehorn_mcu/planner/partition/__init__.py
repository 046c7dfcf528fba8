"""The op order partitioned into groups and blocks: the lowest peak, the least work below a peak, and bounds."""
