"""Refusing what does not fit into memory before it is tried."""

from __future__ import annotations

from laybare.errors import BudgetExhausted, InvalidInput

MEMORY_LIMIT = 2 << 30
"""Bytes that one result may take: 2 GiB, a quarter of a small laptop."""


def check_memory(floats: int, what: str, instead: str, limit: int = MEMORY_LIMIT) -> None:
    """Refuse `what` if its `floats` numbers take more than `limit` bytes; `instead` is the sentence that says what to use."""
    needed = 8 * floats
    if needed > limit:
        raise BudgetExhausted(
            f"{what} would take {readable(needed)}.", f"The limit is {readable(limit)}.", instead, bytes=needed, limit=limit)


def check_order(order: int, most: int = 12) -> None:
    """Refuse orders that are negative or so high that the rounding of He_k exceeds any signal (k! at k = 12 is 5e8)."""
    if not 0 <= order <= most:
        raise InvalidInput(
            f"Moments of order {order} were asked for.", f"Orders count from 0, and above {most} rounding drowns them.",
            "Ask for an order of 8 or less.", order=order)


def readable(size: int) -> str:
    """1536 -> '1.5 kB'; decimal units, as disks and memory are sold."""
    number = float(size)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} PB"
