"""Flashes a folder with `pio run -t upload`, after checking that this can work here."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.firmware.build import pio_command, run_pio
from shoehorn_mcu_host.folder.project import Project

_TAKES_MOUNT = ("drive", "boot-partition")


def _place(project: Project, port: str | None, mount: str | None) -> str:
    """PlatformIO's --upload-port: a mount point, or a debug probe's id; empty: found automatically."""
    tool = project.spec["flash_tool"]
    if mount and tool not in _TAKES_MOUNT:
        raise HostError(f"{project.board_id}: is flashed by {tool}, not onto a drive; leave out --mount")
    return mount or port or ""


def flash(project: Project, port: str | None, mount: str | None, dry_run: bool) -> Sequence[str]:
    """Builds where needed and flashes; returns the exact commands. With `dry_run` they are only returned.

    `port` is a mount point for boards that are drives, else a debug probe's id. HostError says what is missing.
    """
    place = _place(project, port, mount)
    upload = ["-t", "upload", *(["--upload-port", place] if place else [])]
    try:
        inner = project.upload.commands(project.spec, project.build_folder, place, dry_run)
    except project.upload.UploadError as error:
        raise HostError(f"{project.board_id}: {error}") from error
    commands = [shlex.join(pio_command(project, *upload)), *map(shlex.join, inner)]
    if not dry_run:
        run_pio(project, *upload)
    return commands
