"""`laybare demo`."""

from __future__ import annotations

import click

from laybare.cli.endings import NEW_FILE
from laybare.cli.screen import _bar, _pairs_table, console_of, print_path, print_summary
from laybare.report import side_by_side, write_report


@click.command("demo")
@click.option("--report", default="laybare-demo.html", show_default=True, help="Where the HTML page goes.", **NEW_FILE)
@click.option("--width", default=16, show_default=True, type=click.IntRange(1, 64), help="Hidden units of the trained network.")
@click.option("--queries", default=3000, show_default=True, type=click.IntRange(100), help="Queries granted to the recovery.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of training, queries and search.")
def demo(report: str, width: int, queries: int, seed: int) -> None:
    """Train a network on real data, hide it behind a callable, recover its weights from queries."""
    from laybare.studies import trained_mlp

    console = console_of()
    console.print(f"Training scikit-learn's MLPRegressor (10-{width}-1, ReLU) on the diabetes data ...")
    truth = trained_mlp.train(width, seed)
    console.print(f"Hidden behind a callable. Recovering it from at most {queries:,} queries; the width is not told.\n")
    with _bar() as progress:
        case = trained_mlp.extract(truth, queries, seed, progress)
    console.print(_pairs_table(side_by_side(case.found.network, truth), truth.dim, console.width))
    console.print(f"hidden units recovered: {width - len(case.match.missing)} of {width}")
    console.print(f"largest difference of any weight, bias or readout: {case.match.max_error:.1e}\n")
    print_summary(console, str(case.found), case.found.certificate.verdict)
    write_report(case.found, report, truth)
    print_path("report", report)
