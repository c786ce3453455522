"""`laybare demo`: a hidden network, what training finds from samples of it, what laybare finds from queries."""

from __future__ import annotations

import click

from laybare.cli.output import Output, _pairs_table, examples, output_options, print_path, print_summary
from laybare.cli.results import NEW_PAGE, finite, status_of
from laybare.report import pair_units, write_report


@click.command("demo", epilog=examples("laybare demo --width 4 --queries 600 --report demo.html"))
@click.option("--report", default="laybare-demo.html", show_default=True, help="Where the HTML page goes.", **NEW_PAGE)
@click.option("--width", default=16, show_default=True, type=click.IntRange(1, 64), help="Hidden units of the trained network.")
@click.option("--queries", default=3000, show_default=True, type=click.IntRange(100), help="Queries granted to the recovery.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of training, queries and search.")
@output_options
def demo(*, report: str, width: int, queries: int, seed: int, output: Output) -> None:
    """Train a network on real data, hide it behind a callable, recover its weights from queries.

    Beside it, live: what scikit-learn's own training finds from as many samples of the same black box, and from more.
    """
    from laybare.studies import trained_mlp

    output.say(
        f"1. The hidden network: scikit-learn trains an MLPRegressor (10-{width}-1, ReLU) on the diabetes data.",
        "   From here on it is a black box, a function that answers queries; nobody is given its weights.",
        f"2. The queries: laybare asks at most {queries:,}, and is not given the width.\n", indent=3)
    truth = trained_mlp.train(width, seed)
    with output.bar() as progress:
        case = trained_mlp.extract(truth, queries, seed, progress)
    found, match, status = case.found, case.match, status_of(case.found.certificate)
    if found.network.depth == 1 and found.network.top is None:
        output.say(_pairs_table(pair_units(found.network, truth), truth.dim, output.width))
    output.say(f"hidden units recovered: {width - len(match.missing)} of {width}")
    output.say(f"largest difference of any weight, bias or readout: {match.max_error:.1e}\n")
    if output.in_text:
        print_summary(output.summary(found), found.certificate.verdict)
    output.say(
        "\n3. Training: random samples of the same black box, the width given, best of ten starts of L-BFGS.", indent=3)
    with output.bar() as progress:
        students = [trained_mlp.retrain(truth, rows, seed, progress) for rows in (found.samples_used, queries)]
    for student in students:
        output.say(
            f"   {student.samples:,} samples: {student.right} of {width} units right to 1 %; error on fresh inputs "
            f"{student.test_error:.0e} of sd(y)", indent=3)
    output.say("   Nothing in training says which of its units are right.\n")
    write_report(found, report, truth)
    output.emit_json(
        status=status, verdict=found.certificate.verdict, width=width, recovered=width - len(match.missing),
        max_error=finite(match.max_error), queries=found.queries, seconds=found.seconds, report=report,
        training=[{"samples": one.samples, "recovered": one.right, "test_error": one.test_error} for one in students])
    if output.in_text:
        print_path("report", report)
    click.get_current_context().exit(status)
