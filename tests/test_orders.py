"""Orders of dimensions in memory (ir/orders.py): a reshape computed there gives what it gives of plain arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoehorn_mcu.ir.orders import Order, reshaped

NHWC = (0, 2, 3, 1)


@pytest.mark.parametrize(
    ("shape", "order", "after", "before", "result", "beside"),
    [
        ((1, 6, 9, 8), NHWC, (1, 2, 3, 9, 8), NHWC, (0, 3, 4, 1, 2), True),
        ((1, 3, 2, 9, 8), (0, 3, 4, 2, 1), (1, 6, 9, 8), (0, 3, 4, 1, 2), NHWC, True),
        ((1, 6, 9, 8), NHWC, (1, 6, 72), NHWC, (0, 2, 1), True),
        ((1, 6, 9, 8), NHWC, (1, 432), (0, 1, 2, 3), (0, 1), True),
        ((1, 6, 9, 8), NHWC, (54, 8), (0, 1, 2, 3), (0, 1), False),
        ((1, 6, 1, 8), NHWC, (1, 6, 8, 1), NHWC, NHWC, True),
    ],
    ids=["channels parted", "channels joined", "pixels joined", "all joined", "torn apart", "size 1"],
)
def test_dimensions_stay_where_they_are_unless_they_become_one(
    shape: tuple[int, ...], order: Order, after: tuple[int, ...], before: Order, result: Order, beside: bool
) -> None:
    assert reshaped(shape, order, after) == (before, result, beside)


@given(st.data())
def test_a_reshape_in_memory_is_that_of_the_plain_array(data: st.DataObject) -> None:
    parts = data.draw(st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=7))
    shape, after = (_joined(parts, data) for _ in range(2))
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    before, result, _ = reshaped(shape, order, after)
    x = np.arange(int(np.prod(shape))).reshape(shape)

    in_memory = x.transpose(before).reshape([after[dimension] for dimension in result])
    np.testing.assert_array_equal(in_memory, x.reshape(after).transpose(result), strict=True)


def _joined(parts: list[int], data: st.DataObject) -> tuple[int, ...]:
    """Neighbours as one, anywhere."""
    found = [parts[0]]
    for part in parts[1:]:
        if data.draw(st.booleans()):
            found[-1] *= part
        else:
            found.append(part)
    return tuple(found)
