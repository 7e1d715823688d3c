"""The folders of a machine in which programs keep their configuration: home, platform, environment and project.

The command line makes it for this machine, and tests make one for each platform. No other module of this package asks
the operating system.

Source: XDG Base Directory Specification; Known Folders of Windows (RoamingAppData); File System Programming Guide of
macOS (Application Support).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from attrs import field, frozen

__all__ = ["Machine"]

Platform: TypeAlias = Literal["linux", "darwin", "win32"]


@frozen(kw_only=True)
class Machine:
    """One machine.

    Args:
        platform: Decides the folders; other systems than Windows and macOS have those of Linux.
        home: The user's folder.
        project: The current folder.
    """

    platform: Platform
    home: Path
    project: Path
    environ: Mapping[str, str] = field(factory=dict, repr=False)

    @classmethod
    def here(cls) -> Machine:
        """Return this machine.

        Raises:
            RuntimeError: There is no home folder.
        """
        platforms: dict[str, Platform] = {"darwin": "darwin", "win32": "win32"}
        platform = platforms.get(sys.platform, "linux")
        return cls(platform=platform, home=Path.home(), project=Path.cwd(), environ=os.environ)

    @property
    def application_data(self) -> Path:
        """The folder for user data of desktop applications."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        return self.roaming if self.platform == "win32" else self.xdg_config

    @property
    def roaming(self) -> Path:
        """``%APPDATA%``."""
        return self.folder_from("APPDATA") or self.home / "AppData" / "Roaming"

    @property
    def xdg_config(self) -> Path:
        """``$XDG_CONFIG_HOME``."""
        return self.folder_from("XDG_CONFIG_HOME") or self.home / ".config"

    def folder_from(self, variable: str) -> Path | None:
        """Return the folder that a variable names; relative paths are ignored, as XDG requires."""
        # A variable that is not set becomes Path("."), which is not absolute.
        path = Path(self.environ.get(variable, ""))
        return path if path.is_absolute() else None
