"""TFLite Micro's signal ops: every byte as tflite_micro computes it, op by op and as its audio front end."""

from __future__ import annotations

import wave
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from oracle import schema_fb
from runtime import load_portable, load_reference
from tflite_micro.python.tflite_micro import runtime
from tflite_writer import ModelSpec, OpSpec, TensorSpec

from shoehorn_mcu.importers import UnsupportedModel
from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.tflite.importer import import_tflite
from shoehorn_mcu.importers.tflite.signal import LOG_TABLE
from shoehorn_mcu.ir import Array, Graph
from shoehorn_mcu_host.validate.reference import Reference
from tests.shared import DATA, needs_shared

FRONT = DATA / "audio-preprocessor" / "audio_preprocessor_int8.tflite"
SLICE, STRIDE = 480, 320
LOW, HIGH = -(2**15), 2**15 - 1


@dataclass(frozen=True)
class Case:
    """A custom op, its options, operands (arrays are constants, the others types) and outputs."""

    code: str
    options: dict[str, Any]
    operands: Sequence[Array | tuple[str, tuple[int, ...]]]
    outputs: Sequence[tuple[str, tuple[int, ...]]]
    given: Callable[[np.random.Generator, int], list[Array]]  # the inputs of inference i
    seen: slice = field(default_factory=lambda: slice(None))  # of output 0: the part that the op writes

    def bytes(self) -> bytes:
        tensors = []
        for place, each in enumerate(self.operands):
            if isinstance(each, tuple):
                tensors.append(TensorSpec(f"x{place}", each[1], each[0]))
            else:
                tensors.append(TensorSpec(f"x{place}", each.shape, each.dtype.name.upper(), data=each.tobytes()))
        tensors += [TensorSpec(f"y{i}", shape, dtype) for i, (dtype, shape) in enumerate(self.outputs)]
        first = len(self.operands)
        read, written = tuple(range(first)), tuple(range(first, len(tensors)))
        inputs = tuple(i for i in read if isinstance(self.operands[i], tuple))
        return ModelSpec(tensors, [OpSpec("CUSTOM", read, written, self.options, self.code)], inputs, written).bytes()


def samples(count: int) -> Callable[[np.random.Generator, int], list[Array]]:
    """Loud, quiet and constant samples, and the most negative one, whose magnitude int16 does not have."""

    def given(rng: np.random.Generator, number: int) -> list[Array]:
        loud = rng.integers(LOW, HIGH, count, np.int16, endpoint=True)
        kinds = (
            loud,
            loud >> rng.integers(0, 16),
            np.full(count, rng.choice([LOW, HIGH, 0, -1, 1]), np.int16),
            np.where(np.arange(count) == rng.integers(count), LOW, loud >> 6).astype(np.int16),
            np.where(np.arange(count) % rng.integers(2, 9) == 0, HIGH, LOW).astype(np.int16),
        )
        return [kinds[number % len(kinds)].astype(np.int16)]

    return given


def wide(dtype: str, count: int, more: Callable[[np.random.Generator], list[Array]] = lambda rng: []) -> Any:
    """Integers of all magnitudes, and those around powers of 2 and their squares."""

    def given(rng: np.random.Generator, number: int) -> list[Array]:
        bits = np.iinfo(dtype).bits
        found = rng.integers(0, np.iinfo(dtype).max, count, dtype, endpoint=True) >> rng.integers(0, bits, count, dtype)
        edge = (np.ones(count, dtype) << rng.integers(0, bits, count, dtype)) + rng.integers(0, 3, count, dtype)
        return [np.where(rng.random(count) < 0.4, edge - np.ones(count, dtype), found).astype(dtype), *more(rng)]

    return given


def pair(count: int) -> Any:
    return wide("uint32", count, lambda rng: wide("uint32", count)(rng, 0))


def gains() -> Array:
    return np.random.default_rng(3).integers(LOW, HIGH, 125, np.int16, endpoint=True)


def bands(channels: int = 7, bins: int = 33) -> list[Array]:
    """The constants of a filter bank: weights, unweights, first bins, first weights, widths."""
    rng = np.random.default_rng(4)
    widths = rng.integers(0, 6, channels + 1)
    weights = rng.integers(0, HIGH, (2, widths.sum()))
    starts = rng.integers(0, bins - 5, channels + 1)
    return [each.astype(np.int16) for each in (*weights, starts, np.cumsum(widths) - widths, widths)]


def subtraction(**options: int) -> Case:
    rest = {"alternate_one_minus_smoothing": 15401, "alternate_smoothing": 983, "clamping": False}
    rest |= {"min_signal_remaining": 819, "num_channels": 9, "one_minus_smoothing": 15975, "smoothing": 409}
    rest |= {"smoothing_bits": 10, "spectral_subtraction_bits": 14}
    kind = ("UINT32", (9,))
    return Case("SignalFilterBankSpectralSubtraction", rest | options, [kind], [kind, kind], wide("uint32", 9))


def rfft(length: int, count: int) -> Case:
    options = {"T": 7, "fft_length": length}
    return Case("SignalRfft", options, [("INT16", (count,))], [("INT16", (length + 2,))], samples(count))


BANK = bands()
CASES = {
    "window": Case(
        "SignalWindow",
        {"shift": 9},
        [("INT16", (1, 64)), np.random.default_rng(1).integers(LOW, HIGH, 64, np.int16)],
        [("INT16", (1, 64))],
        lambda rng, number: [samples(64)(rng, number)[0][None]],
    ),
    "auto scale": Case("SignalFftAutoScale", {}, [("INT16", (50,))], [("INT16", (50,)), ("INT32", ())], samples(50)),
    **{f"transform of {n}": rfft(n, count) for n, count in ((8, 8), (16, 11), (64, 64), (128, 1), (256, 201))},
    "transform of 512": rfft(512, 480),
    "transform of 1024": rfft(1024, 1024),
    "energy": Case(
        "SignalEnergy",
        {"start_index": 3, "end_index": 17},
        [("INT16", (40,))],
        [("UINT32", (20,))],
        samples(40),
        slice(3, 17),
    ),
    "filter bank": Case(
        "SignalFilterBank",
        {"num_channels": 7},
        [("UINT32", (33,)), *BANK],
        [("UINT64", (7,))],
        wide("uint32", 33),
    ),
    "square root": Case(
        "SignalFilterBankSquareRoot",
        {},
        [("UINT64", (64,)), ("INT32", ())],
        [("UINT32", (64,))],
        wide("uint64", 64, lambda rng: [np.array(rng.integers(0, 16), np.int32)]),
    ),
    "subtraction": subtraction(),
    "subtraction, clamped": subtraction(clamping=True, smoothing=9000, one_minus_smoothing=7384),
    "subtraction, other bits": subtraction(smoothing_bits=3, spectral_subtraction_bits=12, min_signal_remaining=0),
    "gain": Case(
        "SignalPCAN",
        {"snr_shift": 6},
        [("UINT32", (60,)), ("UINT32", (60,)), gains()],
        [("UINT32", (60,))],
        pair(60),
    ),
    "logarithm": Case(
        "SignalFilterBankLog",
        {"input_correction_bits": 3, "output_scale": 64},
        [("UINT32", (64,))],
        [("INT16", (64,))],
        wide("uint32", 64),
    ),
    "logarithm, scaled up": Case(
        "SignalFilterBankLog",
        {"input_correction_bits": 0, "output_scale": 1 << 16},
        [("UINT32", (64,))],
        [("INT16", (64,))],
        wide("uint32", 64),
    ),
}


def references(graph: Graph) -> Iterator[Reference]:
    yield load_reference(graph)
    yield load_portable(graph)


def in_numpy(graph: Graph, inputs: Sequence[Array], held: dict[str, Array]) -> dict[str, Array]:
    """Every tensor; `held` has the states, and is changed."""
    values = {n: t.data for n, t in graph.tensors.items() if t.data is not None}
    values |= dict(zip(graph.inputs, inputs, strict=True))
    values |= {s.read: held.get(s.read, values[s.initial]) for s in graph.states}
    for node in graph.nodes():
        values[node.output.name] = node.op.reference([values[n] for n in node.op.inputs], node.sig)
    held |= {s.read: values[s.write] for s in graph.states}
    return values


@pytest.mark.parametrize("name", CASES)
def test_a_signal_op_computes_the_bytes_of_tflite_micro(name: str) -> None:
    case = CASES[name]
    graph = import_tflite(case.bytes(), "one")
    micro, rng, held = runtime.Interpreter.from_bytes(case.bytes(), arena_size=1 << 16), np.random.default_rng(0), {}
    compiled = list(references(graph))
    for number in range(40):
        given = case.given(rng, number)
        for place, array in enumerate(given):
            micro.set_input(array, place)
        micro.invoke()
        found = [in_numpy(graph, given, held), *(each.run(given) for each in compiled)]
        for place, output in enumerate(graph.outputs):
            part = case.seen if place == 0 else slice(None)
            wanted = np.atleast_1d(micro.get_output(place))[part]
            for values in found:
                np.testing.assert_array_equal(np.atleast_1d(values[output])[part], wanted)


def recordings() -> dict[str, Array]:
    """The samples of TFLite Micro's example, and noise of all volumes."""
    found = {}
    for path in sorted((DATA / "micro-speech").glob("*.wav")):
        with wave.open(str(path)) as file:
            found[path.stem] = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    rng = np.random.default_rng(5)
    found["loud"] = np.concatenate([samples(SLICE)(rng, n)[0] for n in range(30)])
    return found


@needs_shared
@pytest.mark.parametrize("name", ["yes_1000ms", "no_1000ms", "silence_1000ms", "noise_1000ms", "loud"])
def test_every_tensor_of_the_front_end_is_that_of_tflite_micro(name: str) -> None:
    data = FRONT.read_bytes()
    graph, held = import_tflite(data, "front"), {}
    micro = runtime.Interpreter.from_bytes(data, intrepreter_config=runtime.InterpreterConfig.kPreserveAllTensors)
    (subgraph,) = schema_fb.ModelT.InitFromObj(schema_fb.Model.GetRootAsModel(data, 0)).subgraphs
    places = {t.name.decode(): i for i, t in enumerate(subgraph.tensors)}
    sound, compared = recordings()[name], set[str]()
    compiled = list(references(graph))
    for first in range(0, len(sound) - SLICE + 1, STRIDE):
        given = [sound[None, first : first + SLICE]]
        micro.set_input(given[0], 0)
        micro.invoke()
        found = [in_numpy(graph, given, held), *(each.run(given) for each in compiled)]
        for tensor, place in places.items():
            if tensor in found[0] and graph.tensors[tensor].data is None:
                bins = slice(5, 241) if tensor in ("signal_energy", "Cast") else slice(None)  # of 257, in use
                wanted = np.atleast_1d(micro.GetTensor(place, 0)["tensor_data"])[bins]
                compared.add(tensor)
                for values in found:
                    np.testing.assert_array_equal(np.atleast_1d(values[tensor])[bins], wanted, tensor)

    assert len(compared) == 25


def test_the_table_of_logarithms_bends_by_half_a_percent_at_most() -> None:
    assert (LOG_TABLE[0], max(LOG_TABLE), LOG_TABLE[128]) == (0, 5641, 0)


BAD = {
    "another element type": (CASES["transform of 64"], {"T": 1}, "it transforms other samples than int16"),
    "an odd length": (CASES["transform of 64"], {"fft_length": 60}, "powers of 2 from 8 to 8192 are possible"),
    "fewer points than samples": (CASES["transform of 64"], {"fft_length": 32}, "at most 32 samples"),
    "another number of channels": (CASES["filter bank"], {"num_channels": 8}, "an option of another number"),
    "a shift beyond the word": (CASES["window"], {"shift": 32}, "its option 'shift' is 32, 0 to 31 are possible"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_signal_op_that_no_kernel_runs_is_refused(name: str) -> None:
    case, options, message = BAD[name]
    changed = Case(case.code, case.options | options, case.operands, case.outputs, case.given)
    with pytest.raises((ImportFault, UnsupportedModel), match=message):
        import_tflite(changed.bytes(), "one")


def test_options_that_are_missing_or_no_map_are_damage() -> None:
    case = CASES["window"]
    for options in ({}, {"other": 1}):
        changed = Case(case.code, options, case.operands, case.outputs, case.given)
        with pytest.raises(ImportFault, match="damaged: op 0 cannot be read"):
            import_tflite(changed.bytes(), "one")


def test_a_band_beyond_the_spectrum_is_refused() -> None:
    case = CASES["filter bank"]
    starts = [*BANK[2][:-1], 32]
    operands = [case.operands[0], *BANK[:2], np.array(starts, np.int16), *BANK[3:4], np.full(8, 3, np.int16)]
    with pytest.raises(UnsupportedModel, match="a band is beyond the 33 bins"):
        import_tflite(Case(case.code, case.options, operands, case.outputs, case.given).bytes(), "one")


@pytest.mark.parametrize(
    ("name", "place", "operand", "said"),
    [
        ("auto scale", 0, ("INT16", (5, 10)), r"operand 0 is int16\[5x10\], one dimension of int16 is needed"),
        ("gain", 1, ("INT32", (60,)), r"operand 1 is int32\[60\], one dimension of uint32 is needed"),
        ("gain", 2, np.zeros(100, np.int16), "its table of gains has 100 entries, 125 of int16 are needed"),
        ("window", 0, ("INT32", (1, 64)), "samples and weights must be int16"),
        ("subtraction", 0, ("UINT32", (8,)), "it has 8 channels and an option of another number"),
    ],
)
def test_an_operand_that_a_signal_op_does_not_take_is_named(
    name: str, place: int, operand: Array | tuple[str, tuple[int, ...]], said: str
) -> None:
    case = CASES[name]
    operands = [*case.operands[:place], operand, *case.operands[place + 1 :]]

    with pytest.raises(ImportFault, match=said):
        import_tflite(replace(case, operands=operands).bytes(), "one")
