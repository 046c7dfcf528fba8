"""Addresses by beam search over time, from one time outwards."""

from __future__ import annotations

from shoehorn_mcu.planner.placement.sweep.sweep import MOST_HEIGHT, Front, Start, Sweep, SweepSettings

__all__ = ["MOST_HEIGHT", "Front", "Start", "Sweep", "SweepSettings"]
