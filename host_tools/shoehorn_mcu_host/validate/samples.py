"""Samples with labels for a validation: .npz files, and folders of images or WAV files by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu_host.base.errors import InputError, did_you_mean
from shoehorn_mcu_host.base.files import read_bytes
from shoehorn_mcu_host.base.words import counted
from shoehorn_mcu_host.folder import vectors
from shoehorn_mcu_host.folder.plan import Array, End, Plan
from shoehorn_mcu_host.folder.vectors import Vector
from shoehorn_mcu_host.validate import decoders
from shoehorn_mcu_host.validate.accuracy import Labels, checked, classes_of

IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm")
Range = tuple[float, float]  # the real values of a black and of a white pixel

_KNOWN_RANGES: tuple[Range, ...] = ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0), (-128.0, 127.0))
_CLOSE = 0.02  # of the range's width: quantisers put its ends on whole steps
_LARGEST = 1 << 30  # bytes of all samples
_LARGEST_NAMES = 1 << 20  # bytes of a list of classes
_SAMPLE_BYTES = 2  # of a WAV file's samples
_CHANNELS = (1, 3)  # of grey and RGB images
_FULL_SCALE = 32768.0


@dataclass(frozen=True)
class Samples:
    """Vectors as the firmware takes them, and the class of each where it is known."""

    vectors: list[Vector]
    labels: Labels | None  # of each sequence
    starts: tuple[int, ...]  # vectors with which sequences begin, for a model with states

    @classmethod
    def of(cls, vectors: list[Vector], labels: Labels | None) -> Samples:
        """Labelled samples are sequences of one vector each; without labels all are one sequence."""
        return cls(vectors, labels, (0,) if labels is None else tuple(range(len(vectors))))


def load(project: Path, plan: Plan, inputs: Path, labels: Path | None, quantize: bool, pixels: Range | None) -> Samples:
    """The samples in `inputs`, an .npz file or a folder, and their labels.

    Labels are in the .npz file `labels`, beside the inputs in theirs, or the names of the folders that the samples are
    in; `labels` may then be a text file with a name per line, the first one that of class 0, and the firmware may name
    its classes. `pixels`: the real values of black and white; None: as the input's quantisation says. `inputs` may be
    a single WAV file. A model that keeps states between inputs of int16 gets a WAV file piece by piece, the last one
    padded with silence. Raises InputError.
    """
    single = inputs.suffix.lower() == ".wav" and not inputs.is_dir()
    if not inputs.is_dir() and not single:
        if pixels:
            raise InputError(f"{inputs}: is no folder of images, which --pixels is for")
        found = vectors.from_npz(inputs, plan.inputs, quantize)
        given = vectors.read_labels(labels, plan.inputs) if labels else vectors.labels_beside(inputs, plan.inputs)
        if given is None:
            return Samples.of(found, None)
        return Samples.of(found, checked(given, plan.classes, len(found), plan.outputs[0], str(labels or inputs)))
    if len(plan.inputs) != 1:
        what = "WAV file" if single else "folder"
        raise InputError(f"{inputs}: is a {what}, and the model has {len(plan.inputs)} inputs; give an .npz file")
    if single and labels:
        raise InputError(f"{inputs}: is one WAV file; labels are for a folder with a folder for each class")
    names, files = ((), [(inputs, 0)]) if single else _files(inputs, labels, plan)
    end = plan.inputs[0]
    if plan.states and end.outside.dtype == np.int16 and _are_sounds([path for path, _ in files], pixels):
        return _recordings(inputs, plan, names, files)
    if len(files) * end.bytes > _LARGEST:
        raise InputError(
            f"{inputs}: {len(files)} samples of {end.bytes:,} bytes are too many; at most {_LARGEST:,} fit"
        )
    rows = _read(project, end, [path for path, _ in files], pixels)
    return Samples.of([[row] for row in rows], _labels(inputs, plan, names, files))


def _labels(inputs: Path, plan: Plan, names: Sequence[str], files: Sequence[tuple[Path, int]]) -> Labels | None:
    """The class of each file; None where there are no folders for classes."""
    classes = np.array([number for _, number in files])
    return checked(classes, names, len(files), plan.outputs[0], str(inputs)) if names else None


def _recordings(inputs: Path, plan: Plan, names: Sequence[str], files: Sequence[tuple[Path, int]]) -> Samples:
    """Each WAV file as vectors one after another."""
    end = plan.inputs[0]
    wanted = int(np.prod(end.outside.shape, dtype=np.int64))
    _check_takes_sound(inputs, end)
    chosen: list[Vector] = []
    starts, total = [], 0
    for path, _ in files:
        heard = sound(path, plan.sample_hz)
        total += heard.nbytes
        if total > _LARGEST:
            raise InputError(f"{inputs}: holds more than {_LARGEST:,} bytes of samples")
        padded = np.zeros((-(-heard.size // wanted), wanted), np.int16)
        padded.reshape(-1)[: heard.size] = heard
        starts.append(len(chosen))
        chosen += ([row] for row in vectors.column(str(path), padded, end, quantize=False))
    return Samples(chosen, _labels(inputs, plan, names, files), tuple(starts))


def _files(folder: Path, listed: Path | None, plan: Plan) -> tuple[Sequence[str], Sequence[tuple[Path, int]]]:
    """The names of the classes, empty where there are no folders for them, and the files, each with its class."""
    folders = sorted(path for path in _inside(folder) if path.is_dir())
    if not folders:
        if listed:
            raise InputError(f"{folder}: has no folders of classes, which {listed} names")
        names: Sequence[str] = ()
        files = [(path, 0) for path in _inside(folder)]
    else:
        names = _class_names(folders, listed, plan)
        number = {name: place for place, name in enumerate(names)}
        files = [(path, number[each.name]) for each in folders for path in _inside(each)]
    if not files:
        raise InputError(f"{folder}: holds no samples")
    return names, files


def _class_names(folders: Sequence[Path], listed: Path | None, plan: Plan) -> Sequence[str]:
    """By class, as `listed` says, or the firmware; folders called by numbers are these classes.

    Where nothing names the classes, there is a folder for each, in alphabetical order. Raises InputError otherwise.
    """
    own, known, place = [path.name for path in folders], plan.classes, folders[0].parent
    if listed:
        names = _listed(listed)
        if missing := [name for name in own if name not in names]:
            raise InputError(f"{listed}: does not name '{missing[0]}', a folder of {place}")
        return names
    if set(own) <= set(known):
        return known
    if all(name.isascii() and name.isdigit() and len(name) < 6 for name in own):
        by_number = {int(path.name): path.name for path in folders}
        return [by_number.get(number, str(number)) for number in range(max(by_number) + 1)]
    if known:
        lost = next(name for name in own if name not in known)
        cure = did_you_mean(lost, known, "rename the folder, or name all classes by --labels names.txt, one per line")
        raise InputError(f"{place}: '{lost}' is none of the {len(known)} classes that the firmware names; {cure}")
    end = plan.outputs[0]
    if len(own) != (classes := classes_of(end)):
        said = (
            f"has {counted(len(own), 'folder')} for the {classes} classes that output '{end.outside.name}' tells apart"
        )
        cure = "name all by --labels names.txt, one per line, that of class 0 first, or call the folders by numbers"
        raise InputError(f"{place}: {said}; {cure}")
    return own


def _listed(path: Path) -> list[str]:
    """The names in a file, one per line."""
    try:
        text = read_bytes(path, _LARGEST_NAMES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as a list of classes, one per line ({error})") from error
    return [line.strip() for line in text.splitlines() if line.strip()]


def _inside(folder: Path) -> Sequence[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _read(project: Path, end: End, files: Sequence[Path], pixels: Range | None) -> Array:
    """The samples as vectors that the firmware takes."""
    if _are_sounds(files, pixels):
        return np.concatenate([_sound(path, end) for path in files])
    if other := sorted(path for path in files if path.suffix.lower() not in IMAGES):
        known = ", ".join((*IMAGES, ".wav"))
        raise InputError(f"{other[0]}: is no sample; all must be images or all WAV files ({known})")
    meaning = None if end.outside.dtype == np.uint8 else pixels or _range(project, end)
    return np.concatenate([_image(path, end, meaning) for path in files])


def _are_sounds(files: Sequence[Path], pixels: Range | None) -> bool:
    """Whether all are WAV files."""
    if {path.suffix.lower() for path in files} != {".wav"}:
        return False
    if pixels:
        raise InputError(f"{files[0]}: is no image, which --pixels is for")
    return True


def _sound(path: Path, end: End) -> Array:
    """16-bit mono samples: as they are for an input of int16, else as real numbers from -1 to 1."""
    wanted = int(np.prod(end.outside.shape, dtype=np.int64))
    _check_takes_sound(path, end)
    found = sound(path, None, wanted, end.outside.name)
    padded = np.zeros((1, wanted), np.int16)
    padded[0, : found.size] = found
    if end.outside.dtype == np.int16:
        return vectors.column(str(path), padded, end, quantize=False)
    return vectors.column(str(path), padded.astype(np.float32) / np.float32(_FULL_SCALE), end, quantize=True)


def _check_takes_sound(path: Path, end: End) -> None:
    """Raises InputError where the input is not samples one after the other, but an image or features."""
    shape = end.outside.shape
    if sum(size > 1 for size in shape) > 1:
        given = f"input '{end.outside.name}' has shape {list(shape)}, which is none of samples"
        raise InputError(f"{path}: is sound, and {given}; give what the model takes as an .npz file")


def sound(
    path: Path, hz: int | None = None, most: int = _LARGEST // _SAMPLE_BYTES, name: str = ""
) -> NDArray[np.int16]:
    """The samples of a WAV file, int16, one channel, of this rate where it is known, and at most so many.

    Raises InputError, also where the file has none or ends before the last one that its header counts.
    """
    found = decoders.sound(path)
    if (found.width, found.channels) != (_SAMPLE_BYTES, 1):
        raise InputError(f"{path}: has {found.channels} channels of {8 * found.width} bits; wanted is one of 16")
    if hz is not None and found.rate != hz:
        raise InputError(f"{path}: has {found.rate:,} samples per second, the model takes {hz:,}; convert it")
    count, data = found.count, found.data
    if count > most:
        takes = f"input '{name}' takes {most}" if name else f"at most {most:,} fit"
        raise InputError(f"{path}: holds {count} samples, {takes}")
    if count == 0:
        raise InputError(f"{path}: holds no samples; record it again, or leave it out")
    if len(data) != count * _SAMPLE_BYTES:
        said = f"is cut off after {len(data):,} of {count * _SAMPLE_BYTES:,} bytes of samples"
        raise InputError(f"{path}: {said}; copy it again, or leave it out")
    return np.frombuffer(data, "<i2").astype(np.int16)


def _image(path: Path, end: End, meaning: Range | None) -> Array:
    """The image in the input's size and number of channels; None: the input stores pixels as they are."""
    height, width, channels = _size(path, end)
    found = decoders.pixels(path, height, width, channels)
    if meaning is None:
        stored: Array = found
    else:
        low, high = meaning
        stored = (found.astype(np.float32) * np.float32((high - low) / 255) + np.float32(low)).astype(np.float32)
    if _channels_first(end):
        stored = stored.transpose(2, 0, 1)
    return vectors.column(str(path), stored.reshape(1, *end.outside.shape), end, quantize=True)


def _channels_first(end: End) -> bool:
    """Whether the file's image is N, C, H, W: computed in another order, or taken as it is by the firmware, too."""
    shape = end.outside.shape
    return end.order == (0, 2, 3, 1) or (len(shape) == 4 and shape[1] in _CHANNELS and shape[3] not in _CHANNELS)


def _size(path: Path, end: End) -> tuple[int, int, int]:
    """Height, width and channels of an input that is an image: N, H, W, C, or as the file has it N, C, H, W."""
    shape = end.outside.shape
    if len(shape) == 3:
        shape = (*shape, 1)
    if len(shape) == 4 and shape[0] == 1:
        height, width, channels = (shape[2], shape[3], shape[1]) if _channels_first(end) else shape[1:]
        if channels in _CHANNELS:
            return height, width, channels
    name, given = end.outside.name, list(end.outside.shape)
    raise InputError(f"{path}: is an image, and input '{name}' has shape {given}, which is none of grey or RGB images")


def _range(project: Path, end: End) -> Range:
    """The real values of black and white that the input's quantisation, or that behind a float input, tells."""
    limits = vectors.real_range(project, end)
    for low, high in _KNOWN_RANGES:
        close = _CLOSE * (high - low)
        if limits and abs(limits[0] - low) < close and abs(limits[1] - high) < close:
            return low, high
    said = f"takes values from {limits[0]:.4g} to {limits[1]:.4g}" if limits else "does not say which values it takes"
    raise InputError(
        f"input '{end.outside.name}' {said}: how pixels become such values is not known; give those of black and "
        "white, such as --pixels 0 1, or an .npz file"
    )
