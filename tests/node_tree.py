"""A copy of one of the trees of tests/data/inventory, to be changed as a machine changes."""

from __future__ import annotations

import shutil
from pathlib import Path

TREES = Path(__file__).parent / "data" / "inventory"

_PLACES_OF_GPUS = ("/sys/bus/pci/devices", "/proc/driver/nvidia/gpus")


class NodeTree:
    """What a reader sees as `/`."""

    def __init__(self, name: str, to: Path) -> None:
        self.path = to / name
        shutil.copytree(TREES / name, self.path, symlinks=True)

    @property
    def root(self) -> str:
        """The folder, as readers take it."""
        return str(self.path)

    def at(self, path: str) -> Path:
        """Where a file of the node is."""
        return self.path / path.removeprefix("/")

    def write(self, path: str, text: str) -> None:
        """A file, and the folders above it."""
        self.at(path).parent.mkdir(parents=True, exist_ok=True)
        self.at(path).write_text(text)

    def replace(self, path: str, old: str, new: str) -> None:
        """A part of a file, which has to be there."""
        text = self.at(path).read_text()
        assert old in text
        self.at(path).write_text(text.replace(old, new))

    def remove(self, path: str) -> None:
        """A file, a link, or a folder with all that is in it."""
        if self.at(path).is_dir() and not self.at(path).is_symlink():
            shutil.rmtree(self.at(path))
        else:
            self.at(path).unlink()

    def spoil(self, path: str) -> None:
        """There, and not to be read by anybody, root neither: a folder has its name."""
        self.remove(path)
        self.at(path).mkdir()

    def take_out(self, gpu: str) -> None:
        """An NVIDIA GPU, by its address."""
        for place in _PLACES_OF_GPUS:
            if self.at(f"{place}/{gpu}").exists():
                self.at(f"{place}/{gpu}").rename(self._kept(place, gpu))

    def put_back(self, gpu: str) -> None:
        """One that was taken out."""
        for place in _PLACES_OF_GPUS:
            if self._kept(place, gpu).exists():
                self._kept(place, gpu).rename(self.at(f"{place}/{gpu}"))

    def _kept(self, place: str, gpu: str) -> Path:
        return self.at(f"/{gpu}{place.replace('/', '_')}")
