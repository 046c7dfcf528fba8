"""Addresses by beam search over time, from one moment outwards, many placements side by side."""

from __future__ import annotations

from shoehorn_mcu.planner.sweep.sweep import MOST_HEIGHT, Front, Manner, Start, Sweep

__all__ = ["MOST_HEIGHT", "Front", "Manner", "Start", "Sweep"]
