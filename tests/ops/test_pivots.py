"""Pivots are passed to LAPACK, which writes wherever they point to: wrong ones are refused."""

from __future__ import annotations

from typing import Any

import pytest

import retrograd as torch
from retrograd.arrays import _linalg


@pytest.mark.parametrize("rows", [3, 40])
@pytest.mark.parametrize("wrong", [0, -1, 41, -41])
def test_wrong_pivots_are_refused(rows: int, wrong: int) -> None:
    matrix, right = torch.eye(rows), torch.ones(rows, 2)
    pivots = torch.arange(1, rows + 1, dtype=torch.int32)
    assert torch.equal(torch.linalg.lu_solve(matrix, pivots, right), right)
    assert torch.equal(torch.linalg.ldl_solve(matrix, pivots, right), right)
    for at in (0, rows - 1):
        bad = pivots.clone()
        bad[at] = wrong
        with pytest.raises(RuntimeError, match=r"pivots must be between 1 and LU\.size"):
            torch.linalg.lu_solve(matrix, bad, right)
        with pytest.raises(RuntimeError, match=r"lu_unpack must be between 1 and LU\.size"):
            torch.lu_unpack(matrix, bad)
        with pytest.raises(RuntimeError, match="these pivots are not a result"):
            torch.linalg.ldl_solve(matrix, bad, right)


@pytest.mark.parametrize("signs", ["--+--", "+----", "----+", "+++++"])
def test_blocks_of_two_rows_are_taken(signs: str) -> None:
    """Numbers with a sign in pairs are what ``sytrf`` writes for blocks."""
    pivots = torch.tensor([i + 1 if s == "+" else -i - 1 for i, s in enumerate(signs)])
    _linalg.refuse_wrong_blocks(pivots.numpy(), 5)
    pivots[signs.index("-") if "-" in signs else 2] *= -1
    with pytest.raises(RuntimeError, match="negative ones in pairs"):
        _linalg.refuse_wrong_blocks(pivots.numpy(), 5)


def test_no_systems_are_solved_without_lapack(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample of zeros has no pivots that LAPACK could be given."""

    def routine(*arguments: Any) -> Any:
        def refuse(*arrays: Any, **options: Any) -> None:
            raise AssertionError("LAPACK was called")

        return refuse

    monkeypatch.setattr(_linalg, "_symmetric_routine", routine)
    pivots = torch.zeros(0, 2, dtype=torch.int32)
    found = torch.linalg.ldl_solve(torch.zeros(0, 2, 2), pivots, torch.ones(2, 5))
    assert found.shape == (0, 2, 5)
