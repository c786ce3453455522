"""Clusters on this machine for tests: started once, and closed when the session ends."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import unwrap
from typing import Any
from unittest.mock import patch

from laybare.source import dask_engine as engine
from laybare.source.dask_engine import plan_pass


@contextmanager
def local_cluster(workers: int, *, processes: bool) -> Iterator[Any]:
    """A client of so many workers with one thread each; quiet."""
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster = LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=processes, dashboard_address=None, silence_logs=logging.CRITICAL)
        client = Client(cluster, set_as_default=False)
    try:
        with patch.object(engine, "plan_pass", _sendable):
            yield client
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            client.close(timeout=20)
            cluster.close(timeout=20)


def _sendable(source: Any, leaf: Any, statistic: Any, rows: int) -> Any:
    """Functions inside of functions, as they are without the shape checks of the tests: a checked one cannot be sent."""
    return plan_pass(source, leaf, unwrap(statistic), rows)
