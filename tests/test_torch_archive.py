"""Files of PyTorch that are refused before PyTorch sees them; none of these tests needs it."""

from __future__ import annotations

import importlib.util
import json
import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from shoehorn_mcu.importers import ImportFault, load
from shoehorn_mcu.importers.seen import seen_in
from shoehorn_mcu.importers.source import SourceTensor
from shoehorn_mcu.importers.torch.archive import MOST_MEMBERS, Kind, read
from shoehorn_mcu_host.base import sandbox

META = {
    "dtype": 7,
    "sizes": [{"as_int": 2}, {"as_int": 3}],
    "strides": [{"as_int": 3}, {"as_int": 1}],
    "storage_offset": {"as_int": 0},
}
WEIGHT = {"path_name": "weight_0", "is_param": True, "use_pickle": False, "tensor_meta": META}
LISTS = ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json")
NODE = {"target": "torch.ops.aten.relu.default", "inputs": [], "metadata": {"stack_trace": "s", "x": "y"}}
PROGRAM = {"graph_module": {"graph": {"nodes": [NODE]}}, "range_constraints": {"s77": {}}, "guards_code": ["x"]}


def members(**changes: Any) -> dict[str, bytes]:
    """A small program as torch.export.save writes it: `node`, `weight`, `program` change a part of it."""
    program = PROGRAM | changes.get("program", {})
    if "node" in changes:
        program["graph_module"] = {"graph": {"nodes": [NODE | changes["node"]]}}
    weight = WEIGHT | changes.get("weight", {})
    return {
        "archive_format": b"pt2",
        "archive_version": b"0",
        "byteorder": b"little",
        "models/model.json": json.dumps(program).encode(),
        LISTS[0]: json.dumps({"config": {"w": weight}}).encode(),
        LISTS[1]: b'{"config": {}}',
        "data/weights/weight_0": bytes(24),
        "data/sample_inputs/model.pt": b"a pickle",
    }


def script(**changes: bytes) -> dict[str, bytes]:
    """A small module as torch.jit.save writes it."""
    made = {"data.pkl": b"\x80\x02.", "constants.pkl": b"\x80\x02.", "code/__torch__.py": b"x = 1", "version": b"3"}
    return made | {name.replace("_pkl", ".pkl").replace("code", "code/__torch__.py"): d for name, d in changes.items()}


def packed(folder: Path, held: dict[str, bytes], name: str = "model.pt2", deflated: bool = False) -> Path:
    path = folder / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED) as file:
        for member, data in held.items():
            file.writestr(f"model/{member}", data)
    return path


def test_a_program_is_packed_anew_without_what_could_run(tmp_path: Path) -> None:
    archive = read(packed(tmp_path, {**members(), "extra/notes": b"z", "data/weights/weight_9": b"unused"}))

    assert archive.kind is Kind.PROGRAM
    assert set(archive.members) == set(members())
    assert archive.members["data/sample_inputs/model.pt"] == b""
    program = json.loads(archive.members["models/model.json"])
    assert program["guards_code"] == []
    assert program["graph_module"]["graph"]["nodes"][0]["metadata"] == {"stack_trace": "s"}
    (tmp_path / "again.pt2").write_bytes(archive.packed())
    assert read(tmp_path / "again.pt2") == archive


def test_a_script_is_told_by_its_members(tmp_path: Path) -> None:
    archive = read(packed(tmp_path, {**script(), "extra/notes": b"z"}))

    assert archive.kind is Kind.SCRIPT
    assert set(archive.members) == set(script())


@pytest.mark.parametrize(
    "target",
    [
        "torch.os.system",
        "torch.ops.load_library",
        "torch.ops.aten.relu.default.__globals__",
        "torch.ops.aten.__init__",
        "torch.ops.aten.from_file.default",
        "torch.ops.aten.load.default",
        "torch.ops.aten.save.default",
        "torch.ops.prims._make_token.default",
        "torch.ops.higher_order.triton_kernel_wrapper_functional",
        "torch.ops.mine.relu.default",
        "torch.load",
        "_operator.attrgetter",
        "math.factorial",
        "#mine:relu",
        ["torch.ops.aten.relu.default"],
    ],
)
def test_an_op_that_is_not_pytorch_s_own_is_refused(target: Any, tmp_path: Path) -> None:
    with pytest.raises(ImportFault, match=r"model.pt2: op ['\"].*['\"] is none of those that a model may have"):
        load(packed(tmp_path, members(node={"target": target})))


@pytest.mark.parametrize("target", ["torch.ops.aten.__and__.Tensor", "torch.ops.aten._softmax.int", "_operator.mul"])
def test_ops_of_pytorch_are_let_through(target: str, tmp_path: Path) -> None:
    assert read(packed(tmp_path, members(node={"target": target}))).kind is Kind.PROGRAM


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('touch x')",
        "Symbol('s77').__class__",
        "Symbol('__import__')",
        "Pow(Integer(9), Pow(Integer(9), Integer(9)))",
        "9**9**9",
        "Integer(99999999999999999999999)",
        "lambda: 0",
        "Symbol('u99999999')",
        "Add(" * 1000,
        7,
    ],
)
def test_a_size_that_is_no_sum_or_product_is_refused(text: Any, tmp_path: Path) -> None:
    with pytest.raises(ImportFault, match="is no sum or product of sizes"):
        load(packed(tmp_path, members(node={"outputs": [{"as_expr": {"expr_str": text}}]})))


@pytest.mark.parametrize(
    "text",
    [
        "Symbol('s77', positive=True, integer=True)",
        "Add(Mul(Integer(-1), Symbol('s53', positive=True, integer=True)), Integer(9))",
        "Pow(Symbol('s77', integer=True), Integer(2))",
        "StrictLessThan(Symbol('u0', integer=True), Integer(3))",
    ],
)
def test_sizes_of_symbols_are_let_through(text: str, tmp_path: Path) -> None:
    made = members(node={"outputs": [{"as_expr": {"expr_str": text}}]})

    assert read(packed(tmp_path, made)).kind is Kind.PROGRAM


def _without(name: str) -> dict[str, bytes]:
    return {each: data for each, data in members().items() if each != name}


REFUSED: dict[str, tuple[dict[str, bytes], str]] = {
    "pickled weight": (members(weight={"use_pickle": True}), "tensor 'w' is pickled"),
    "object": (members(weight={"path_name": "opaque_obj_0"}), "'w' is an object that is no tensor"),
    "path": (members(weight={"path_name": "../weight_0"}), "'w' is an object that is no tensor"),
    "no size": (members(weight={"tensor_meta": META | {"sizes": [{"as_expr": {}}] * 2}}), "'w' has no fixed size"),
    "no meta": (members(weight={"tensor_meta": None}), "'w' has no fixed size"),
    "negative": (members(weight={"tensor_meta": META | {"strides": [{"as_int": -1}] * 2}}), "impossible sizes"),
    "large": (members(weight={"tensor_meta": META | {"sizes": [{"as_int": 1 << 20}] * 2}}), "which are too many"),
    "beyond": (members(weight={"tensor_meta": META | {"sizes": [{"as_int": 90}, {"as_int": 1}]}}), "has 24 bytes, not"),
    "no weights": (_without("data/weights/weight_0"), "member 'data/weights/weight_0' is missing"),
    "older": (_without(LISTS[0]), "written by torch 2.8 or older"),
    "oldest": ({"serialized_exported_program.json": b""}, "no archive of PyTorch"),
    "other name": ({**_without("models/model.json"), "models/net.json": b""}, "its programs are models/net.json"),
    "no program": (_without("models/model.json"), "it has no program"),
    "no JSON": (members() | {"models/model.json": b"{"}, "'models/model.json' is no JSON"),
    "deep": (members() | {"models/model.json": b"[" * 100_000}, "nested too deeply"),
    "list": (members() | {"models/model.json": b"[]"}, "its program is no graph"),
    "operator": (members(node={"inputs": [{"as_operator": "torch.os.system"}]}), "argument of kind operator"),
    "symbol": (members(program={"range_constraints": {"u99999999": {}}}), "no plain name"),
    "compiled": (members() | {"data/aotinductor/model/x.so": b""}, "compiled by AOTInductor"),
    "pickled module": ({"data.pkl": b"", "data/0": b"", "version": b"3"}, "a pickle, which can run any code"),
    "empty": ({"a": b""}, "no archive of PyTorch"),
    "foreign op": (script(code=b"a = ops.mine.run(x)"), "calls an op of 'mine', which is not PyTorch's own"),
    "C++ object": (script(data_pkl=b"c__torch__.torch.classes.dist_rpc\nX\n."), "object of 'torch.classes.dist_rpc.X'"),
    "C++ object, cut": (script(data_pkl=b"c__torch__.torch\nclasses.rpc.X\n."), "object of 'torch.classes.rpc.X'"),
    "C++ type": (script(code=b"class A(Module):\n  x : __torch__.torch.classes.a.B\n"), "an object of torch.classes"),
    "function of Python": (script(data_pkl=b"cos\nsystem\n."), "its data.pkl asks for 'os.system', which is no part"),
    "function of torch": (script(constants_pkl=b"ctorch\nload\n."), "its constants.pkl asks for 'torch.load'"),
    "name of a stack": (script(data_pkl=b"\x80\x04\x8c\x02os\x8c\x06system\x93."), "has the instruction STACK_GLOBAL"),
    "cut pickle": (script(data_pkl=b"\x80\x02c"), "its data.pkl is damaged"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, tmp_path: Path) -> None:
    held, message = REFUSED[name]

    with pytest.raises(ImportFault, match=r"model.pt2: ") as refused:
        load(packed(tmp_path, held))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


_BODY = b"def f(x: Tensor) -> Tensor:\n  "
DISGUISES: dict[str, tuple[bytes, str]] = {
    "save": (_BODY + b'torch.save(x, "f")', "the op 'save' of aten, which is none of those that a model may have"),
    "load": (_BODY + b'return torch.load("f")', "the op 'load' of aten"),
    "load of ops": (_BODY + b'return ops.aten.load("f")', "the op 'load' of aten"),
    "from_file": (_BODY + b'return ops.aten.from_file("f")', "the op 'from_file' of aten"),
    "load_library": (_BODY + b'ops.load_library("f")', "has 'ops' alone"),
    "print": (_BODY + b"ops.prim.Print(x)", "the op 'Print' of prim"),
    "fork": (_BODY + b"fork(x)", "calls 'fork', which is nothing of its own"),
    "continuation": (_BODY + b'ops.aten.\\\nsave(x, "f")', "has a backslash outside a text in line 2"),
    "continuation in a name": (_BODY + b'ops.aten.sa\\\nve(x, "f")', "has a backslash outside a text in line 2"),
    "continuation with blanks": (_BODY + b'torch \\\n . save(x, "f")', "has a backslash outside a text in line 2"),
    "blanks": (_BODY + b'torch . save (x, "f")', "the op 'save' of aten"),
    "brackets": (_BODY + b'y = (torch.\n  save(x, "f"))', "the op 'save' of aten"),
    "comment": (_BODY + b'y = (ops.aten. # so\n  save(x, "f"))', "has a comment in line 2"),
    "comment at the end": (b"x = 1\n\n# so", "has a comment in line 3"),
    "type comment": (_BODY + b"y = [] # type: List[int]", "has a comment in line 2"),
    "alias": (_BODY + b't = torch\n  t.save(x, "f")', "has 'torch' alone in line 2"),
    "alias of ops": (_BODY + b'a = ops.aten\n  a.save(x, "f")', "has 'ops' alone in line 2"),
    "alias of an op": (_BODY + b's = torch.save\n  s(x, "f")', "the op 'save' of aten"),
    "module in brackets": (_BODY + b'(torch).save(x, "f")', "has 'torch' alone"),
    "method": (_BODY + b'(x).save("f")', "calls 'save' of a value, which it does not define"),
    "method of a name": (_BODY + b'x.save("f")', "calls 'save' of a value, which it does not define"),
    "method of an element": (_BODY + b'(x)[0].save("f")', "calls 'save' of a value, which it does not define"),
    "format": (_BODY + b'"{}".format(x)', "calls 'format' of a value, which it does not define"),
    "getattr": (_BODY + b'getattr(x, "save")("f")', "calls getattr for what a dot gives in line 2"),
    "getattr, texts": (_BODY + b'getattr(x, "sa" "ve")("f")', "has two texts side by side"),
    "getattr, escape": (_BODY + b'getattr(x, "sa\\x76e")("f")', "calls getattr for what a dot gives"),
    "getattr, sum": (_BODY + b'getattr(x, "0" + "save")("f")', "calls getattr for what a dot gives"),
    "getattr, format": (_BODY + b'getattr(x, torch.format("sa{}", "ve"))("f")', "calls getattr for what a dot gives"),
    "setstate": (b"class A(Module):\n  def __setstate__(self: A, s: int) -> NoneType:\n    pass", "has a __setstate__"),
    "default": (
        b"def f(x: Tensor=torch.ones([1])) -> Tensor:\n  return x",
        "calls a function outside of one in line 1",
    ),
    "default, later": (
        _BODY + b"return x\ndef g(x: int,\n    y: int=f(x)) -> int:\n  return x",
        "outside of one in line 4",
    ),
    "constant": (b"class A(Module):\n  x : Final[int] = torch.len([1])\n", "calls a function outside of one in line 2"),
    "base": (b"class A(f(x)):\n  pass\n", "calls a function outside of one in line 1"),
    "brackets called": (b"x = (f)(1)\n", "calls a function outside of one in line 1"),
    "an element called": (b"x = [f][0](1)\n", "calls a function outside of one in line 1"),
    "statement": (b"x = torch.ones([1])\n", "calls a function outside of one in line 1"),
    "after a body": (_BODY + b"return x\ntorch.ones([1])\n", "calls a function outside of one in line 3"),
    "tab": (b"def f(x):\n\treturn x", r"has '\\t' in line 2"),
    "form feed": (b"x\x0c= 1", r"has '\\x0c' in line 1"),
    "letter": ("tor\u0441h = 1".encode(), "in line 1, which torch.jit.save does not write"),
    "prefix of a text": (b'x = r"a"', "joined to what is before it"),
    "long text": (b'x = """a"""', "joined to what is before it|two texts"),
    "open text": (b'x = "a\n"', "has a text without end in line 1"),
    "hexadecimal": (b"x = 0x1.save", "joined to what is before it"),
    "a number in front of a long name": (b"x = 1" + b"a" * 300, "has 'a{20}' joined to what is before it in line 1"),
    "brackets that end too early": (b"x = 1)\n", r"has '\)' without its bracket before in line 1"),
    "decorator": (b"@torch.jit.export\n" + _BODY, "has '@' in line 1"),
}


@pytest.mark.parametrize("name", DISGUISES)
def test_a_source_that_torch_would_not_write_is_refused_before_it_is_loaded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "answer", lambda *_: pytest.fail("it was given to PyTorch"))
    source, message = DISGUISES[name]

    with pytest.raises(ImportFault, match=f"its code/__torch__.py .*{message}") as refused:
        load(packed(tmp_path, script(code=source)))
    assert "\n" not in str(refused.value)


SOURCE = b"""op_version_set = 1
class Net(Module):
  __parameters__ = ["weight", ]
  __annotations__["0"] = __torch__.torch.nn.modules.linear.Linear
  weight : Tensor
  names : Final[Tuple[str, str]] = ("a # b", 'c \\" \\n \\\\')
  l : __torch__.torch.nn.modules.container.___torch_mangle_1.ModuleList
  def forward(self: __torch__.Net,
    x: Tensor,
    sizes: Tuple[int, int]=(1, 1),
    scale: Optional[float]=-1.5e-05) -> Tuple[Tensor, List[int]]:
    _0 = __torch__.torch.nn.functional.interpolate
    l = self.l
    _1 = getattr(l, "0")
    _2 = getattr((l).inner, "in")
    y = annotate(List[int], [])
    for i in range(torch.len(sizes)):
      _3 = torch.append(y, sizes[i])
    if torch.__contains__(["a", "b"], self.names[0]):
      ops.prim.RaiseException("no # comment", "builtins.ValueError")
    else:
      pass
    z, w, = (_1).forward(_0(x, None, 2., ), )
    a = torch.relu_(torch.add(z, CONSTANTS.c0))
    b = ops.quantized.add(a, (a)._own(w, ), 0.5, 3)
    return (b, unchecked_cast(List[int], y))
  def _own(self: __torch__.Net, x: Tensor) -> Tensor:
    return torch.softmax(x, -1, None)
"""


def test_what_torch_writes_is_let_through(tmp_path: Path) -> None:
    names = b"\x80\x02c__torch__.a\nNet\nc__torch__\nNet\nctorch._utils\n_rebuild_tensor_v2\nctorch\nFloatStorage\n."

    archive = read(packed(tmp_path, script(code=SOURCE, data_pkl=names) | {"code/__torch__.py.debug_pkl": b"x"}))

    assert archive.members["code/__torch__.py"] == SOURCE
    assert set(archive.members) == set(script())


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    most = MOST_MEMBERS // 100  # as many as there may be take seconds to write
    monkeypatch.setattr("shoehorn_mcu.importers.torch.archive.MOST_MEMBERS", most)
    bomb = packed(tmp_path, members() | {"data/weights/weight_0": bytes(64 << 20)}, deflated=True)
    assert bomb.stat().st_size < 128 << 10

    many = packed(tmp_path, {f"data/{n}": b"" for n in range(most + 1)}, "many.pt2")
    for path in (bomb, many):
        with pytest.raises(ImportFault, match="no model is like that"):
            load(path)


def test_a_member_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.pt2"
    with zipfile.ZipFile(path, "w") as file, pytest.warns(UserWarning, match="Duplicate"):
        for _ in range(2):
            file.writestr("model/archive_format", b"pt2")

    with pytest.raises(ImportFault, match="member 'archive_format' is there twice"):
        load(path)


class Fires:
    """Writes a file when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return Path.write_text, (self.place, "fired")


@pytest.mark.parametrize("member", ["data/sample_inputs/model.pt", "data/weights/weight_0", "data/constants/model.pt"])
def test_no_pickle_is_unpickled(member: str, tmp_path: Path) -> None:
    fired = tmp_path / "fired"
    data = pickle.dumps(Fires(fired))

    with pytest.raises(ImportFault):  # with PyTorch: the graph has no inputs
        load(packed(tmp_path, members() | {member: data + bytes(24)}))
    (tmp_path / "plain.pt").write_bytes(data)
    with pytest.raises(ImportFault, match=r"a pickle, which can run any code; save it again with torch.export.save"):
        load(tmp_path / "plain.pt")
    assert not fired.exists()


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\x03\x04" + bytes(40), b"no archive"])
def test_what_is_no_archive_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.pt2").write_bytes(data)

    with pytest.raises(ImportFault, match=r"model.pt2: (no archive of PyTorch|damaged|is empty)"):
        load(tmp_path / "model.pt2")


def test_a_damaged_member_is_refused(tmp_path: Path) -> None:
    path = packed(tmp_path, members())
    path.write_bytes(path.read_bytes().replace(b"torch.ops.aten", b"torch.ops.aXen"))

    with pytest.raises(ImportFault, match=r"model.pt2: damaged \(Bad CRC-32"):
        load(path)


@pytest.mark.parametrize("missing", ["torch", "onnxscript"])
def test_without_pytorch_the_extra_is_named(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)

    here = missing != "torch" and importlib.util.find_spec("torch")
    said = "onnxscript, which PyTorch's exporter needs," if here else "PyTorch"
    with pytest.raises(ImportFault, match=rf"model.pt2: {said} is not installed: `pip install shoehorn-mcu\[torch\]`$"):
        load(packed(tmp_path, members()))


def test_a_pytorch_that_cannot_be_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch_cpu.so: cannot open shared object file')\n")
    (tmp_path / "onnxscript.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    sandbox.end()

    said = r"model.pt2: PyTorch cannot be imported here \(libtorch_cpu.so: .*\); install it again: `pip install "
    try:
        with pytest.raises(ImportFault, match=said):
            load(packed(tmp_path, members()))
    finally:
        sandbox.end()


def _tensor(name: str) -> dict[str, Any]:
    return {"as_tensor": {"name": name}}


def test_what_a_program_holds_is_seen_without_pytorch(tmp_path: Path) -> None:
    """A product of an input with a weight, of which the first part of two is given out."""
    nodes = [
        NODE
        | {
            "target": "torch.ops.aten.linear.default",
            "inputs": [{"name": "input", "arg": _tensor("x")}, {"name": "weight", "arg": _tensor("p_w")}],
            "outputs": [_tensor("linear")],
        },
        NODE
        | {
            "target": "torch.ops.aten.chunk.default",
            "inputs": [{"name": "self", "arg": _tensor("linear")}, {"name": "chunks", "arg": {"as_int": 2}}],
            "outputs": [{"as_tensors": [{"name": "first"}, {"name": "second"}]}],
        },
    ]
    open_end = META | {"sizes": [{"as_expr": "s77"}, {"as_int": 3}]}
    graph = {
        "nodes": nodes,
        "inputs": [_tensor("p_w"), _tensor("x")],
        "outputs": [_tensor("first")],
        "tensor_values": {"x": open_end, "p_w": META, "linear": META, "first": META, "second": META | {"dtype": 99}},
    }
    specs = [{"parameter": {"arg": {"name": "p_w"}}}, {"user_input": {"arg": _tensor("x")}}]
    program = {"graph_module": {"graph": graph, "signature": {"input_specs": specs}}}

    found = seen_in(packed(tmp_path, members(program=program)))

    assert found is not None
    assert found.inputs == (SourceTensor("x", ("?", 3), "float32"),)
    assert found.outputs == ("first",)
    assert [(op.code, op.reads, [each.name for each in op.writes]) for op in found.ops] == [
        ("aten.linear", ("x",), ["linear"]),
        ("aten.chunk", ("linear",), ["first", "second"]),
    ]
    assert [each.dtype for each in found.ops[1].writes] == ["float32", ""]


def test_the_calls_of_torchscript_are_seen_in_its_text(tmp_path: Path) -> None:
    text = b"""class M(Module):
  def forward(self: __torch__.M, x: Tensor, scale: Tensor) -> Tensor:
    a = torch.relu(x)
    return ops.quantized.mul(a, torch.add(scale, 1))
"""

    found = seen_in(packed(tmp_path, script(code=text), "model.pt"))

    assert found is not None
    assert [each.name for each in found.inputs] == ["x", "scale"]
    assert [op.code for op in found.ops] == ["relu", "mul", "add"]


def test_of_what_is_no_model_nothing_is_seen(tmp_path: Path) -> None:
    for name in ("a.txt", "a.pt2", "a.onnx", "a.tflite"):
        (tmp_path / name).write_bytes(b"PK nothing")
        assert seen_in(tmp_path / name) is None
