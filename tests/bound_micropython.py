# Run by MicroPython, with the folder of data: every module that it has, beside the bytes of the reference.
import array
import gc
import sys

FOLDER = sys.argv[1]


def read(path):
    with open(FOLDER + "/" + path, "rb") as file:  # noqa: PTH123  # MicroPython has no pathlib
        return file.read()


def size(end):
    shape, code = end[0], end[1]
    count = 1
    for each in shape:
        count *= each
    return count * len(bytes(array.array(code, [0])))


def as_bytes(result):
    return b"".join(result) if isinstance(result, tuple) else result


def refused(kind, function, *arguments):
    try:
        function(*arguments)
    except kind as error:
        return str(error)
    raise AssertionError("not refused")


def of_whole_inputs(module, data, out):
    """The bytes of all inferences; every other one into `out`."""
    sizes, at, said = [size(end) for end in module.inputs()], 0, b""
    for turn in range(len(data) // sum(sizes)):
        parts = []
        for each in sizes:
            parts.append(data[at : at + each])
            at += each
        given = parts[0] if len(parts) == 1 else tuple(parts)
        if turn % 2:
            assert module.run(given, out) is out
            said += b"".join(out) if isinstance(out, list) else bytes(out)
        else:
            said += as_bytes(module.run(given))
    return said


def of_rows(module, data, out):
    (end,) = module.inputs()
    row = size(end) // end[0][1]
    module.push_row(data[:row])
    module.reset()
    said = b""
    for at in range(0, len(data), row):
        given = bytearray(data[at : at + row])
        result = module.push_row(given, out) if at // row % 2 else module.push_row(given)
        assert result is None or (at // row) % end[0][1] == end[0][1] - 1
        said += b"" if result is None else bytes(result)
    return said


for name in sys.argv[2:]:
    module = __import__(name)
    stem = name[:-6] if name.endswith("_model") else name
    if hasattr(module, "init"):
        assert "call apart.init() first" in refused(ValueError, module.run, bytes(90))
        module.init()
    buffers = [bytearray(size(end)) for end in module.outputs()]
    out = buffers[0] if len(buffers) == 1 else buffers
    found = (of_rows if hasattr(module, "push_row") else of_whole_inputs)(module, read(stem + ".in"), out)
    print(name, "equal" if found == read(stem + ".out") else "DIFFERS")
    if hasattr(module, "deinit"):
        module.deinit()
        assert "call apart.init() first" in refused(ValueError, module.run, bytes(90))

while_model, every_type, by_rows = map(__import__, ("while_model", "every_type", "by_rows"))

wrong = (
    (while_model.run, (bytes(63),)),
    (while_model.run, (array.array("f", [0.0] * 16),)),
    (while_model.run, (7,)),
    (while_model.run, ("x" * 64,)),
    (while_model.run, (bytes(64), bytes(10))),
    (while_model.run, (bytes(64), bytearray(11))),
    (while_model.run, (bytes(64), array.array("h", [0] * 5))),
)
for function, arguments in wrong:
    print(refused(ValueError, function, *arguments))

print(refused(ValueError, every_type.run, bytes(3)))
print(refused(ValueError, every_type.run, (bytes(3), bytes(3))))
print(while_model.inputs(), while_model.outputs())
print(while_model.run(array.array("b", [-128] * 64)) == while_model.run(bytes([128] * 64)))

print(by_rows.class_name(3))

gc.collect()
x, y = bytes(64), bytearray(10)
while_model.run(x, y)
before = gc.mem_alloc()
for _ in range(50):
    while_model.run(x, y)
print("allocated", gc.mem_alloc() - before)
