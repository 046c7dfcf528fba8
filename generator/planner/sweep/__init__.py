"""Addresses by beam search over time: bundles in the order of their births, many placements side by side."""

from __future__ import annotations

from generator.planner.sweep.sweep import MOST_HEIGHT, Manner, Sweep

__all__ = ["MOST_HEIGHT", "Manner", "Sweep"]
