"""`guessahead predict`: the expected speed-up."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from guessahead.cli.base import debug_option
from guessahead.cli.outputs import Output, output_file
from guessahead.errors import ParameterError

if TYPE_CHECKING:
    from guessahead.measure.formulas import Costs, Forecast, Grid
    from guessahead.report.measured import Measured

_GAMMAS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16)


@click.command("predict")
@click.option("--alpha", type=float, help="Probability that a guess is right, from 0 to 1.")
@click.option("--gamma", type=click.IntRange(0, 63), help="Guesses per step.  [default: the best]")
@click.option("--cost", type=float, help="c: time of one guess over that of a plain pass.  [default: 0]")
@click.option(
    "--verify-curve",
    metavar="ROWS:V,...",
    help="v: time of a pass of this many rows over that of one row.  [default: always 1]",
)
@click.option(
    "--from",
    "trace_file",
    type=click.Path(path_type=Path),
    metavar="TRACE.json",
    help="Read alpha and the costs from a file of `generate --compare --trace`.",
)
@click.option(
    "--plot",
    callback=output_file,
    metavar="FILE.png|FILE.svg",
    help="Also draw the table (requires the extra `plot`).",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
@debug_option
def command(trace_file: Path | None, plot: Output | None, as_json: bool, **values: Any) -> None:
    """Predict the effect of guessing: tokens per pass, speed, the best gamma, the alpha that is required.

    tau = (1 - alpha^(gamma+1)) / (1 - alpha), speed = tau / (gamma * c + v(gamma + 1)): Leviathan, Kalman,
    Matias 2023. Options that are given with --from replace the measured values.
    """
    from guessahead.measure.formulas import best_gamma, forecast, grid

    measured = _measured(trace_file)
    alpha = _alpha_of(values["alpha"], measured)
    costs = _costs(values, measured)
    best = best_gamma(alpha, costs)
    gamma = best if values["gamma"] is None else values["gamma"]
    given, optimum = forecast(alpha, gamma, costs), forecast(alpha, best, costs)
    table = grid(costs, _GAMMAS)
    if plot is not None:
        _draw(table, given, plot)
    if as_json:
        click.echo(json.dumps(_document(given, optimum, costs, table, measured)))
        return
    _print(given, optimum, costs, measured)
    _print_table(table)


def _measured(trace_file: Path | None) -> Measured | None:
    from guessahead.report.measured import from_trace
    from guessahead.report.trace import read_trace

    return None if trace_file is None else from_trace(read_trace(trace_file))


def _alpha_of(given: float | None, measured: Measured | None) -> float:
    if given is not None:
        return given
    if measured is None:
        raise ParameterError("give --alpha, or a trace with --from TRACE.json")
    return measured.alpha


def _costs(values: dict[str, Any], measured: Measured | None) -> Costs:
    from guessahead.measure.formulas import Costs, VerifyCurve

    known = Costs() if measured is None else measured.costs
    c = known.c if values["cost"] is None else values["cost"]
    curve = values["verify_curve"]
    return Costs(c, known.v if curve is None else VerifyCurve.parse(curve))


def _print(given: Forecast, best: Forecast, costs: Costs, measured: Measured | None) -> None:
    v = costs.v(given.gamma + 1)
    lines = [
        ("alpha", f"{given.alpha:.3g}"),
        ("gamma", f"{given.gamma}" + (" (the best)" if given.gamma == best.gamma else "")),
        ("costs", f"c = {costs.c:.3g}, v({given.gamma + 1}) = {v:.3g}"),
        ("tau", f"{given.tau:.2f} tokens per pass"),
        ("speed-up", f"{given.speedup:.2f}"),
        ("break-even", _alpha(given)),
    ]
    if given.gamma != best.gamma:
        lines.append(("best gamma", f"{best.gamma}: speed-up {best.speedup:.2f}"))
    if measured is not None:
        lines += _measured_lines(measured)
    width = max(len(label) for label, _ in lines)
    for label, value in lines:
        click.echo(f"{label:{width}}  {value}")
    click.echo()


def _measured_lines(measured: Measured) -> list[tuple[str, str]]:
    from guessahead.measure.formulas import rising

    tau = "-" if measured.tau is None else f"{measured.tau:.2f}"
    speedup = "-" if measured.speedup is None else f"{measured.speedup:.2f}"
    lines = [
        (
            "measured",
            f"tau {tau}, speed-up {speedup}, {measured.mean_draft:.1f} guesses in a step that guesses",
        )
    ]
    if not rising(measured.costs.v):
        lines.append(("note", "v does not increase: the machine was busy, these figures are uncertain"))
    return lines


def _alpha(given: Forecast) -> str:
    if given.gamma == 0:
        return "nothing is guessed: plain decoding"
    if given.break_even is None:
        return f"none: {given.gamma} guesses cost more than they can gain"
    return f"alpha {given.break_even:.2f}: below it, gamma {given.gamma} is slower than plain decoding"


def _print_table(table: Grid) -> None:
    """Speed-ups; the best gamma for each alpha has a star."""
    click.echo("speed-up by gamma (down) and alpha (across); * the best of a column")
    click.echo("gamma " + "".join(f"{alpha:>7.2f}" for alpha in table.alphas))
    best = [max(column) for column in zip(*table.speedups, strict=True)]
    for gamma, row in zip(table.gammas, table.speedups, strict=True):
        cells = [
            f"{value:>6.2f}{'*' if value == top and value > 1 else ' '}"
            for value, top in zip(row, best, strict=True)
        ]
        click.echo(f"{gamma:>5} {''.join(cells)}".rstrip())


def _document(
    given: Forecast, best: Forecast, costs: Costs, table: Grid, measured: Measured | None
) -> dict[str, Any]:
    return {
        **asdict(given),
        "c": costs.c,
        "v": {str(rows): v for rows, v in costs.v.points.items()},
        "best": asdict(best),
        "grid": asdict(table),
        "measured": measured
        and {
            "tau": measured.tau,
            "speedup": measured.speedup,
            "share": measured.share,
            "mean_draft": measured.mean_draft,
        },
    }


def _draw(table: Grid, given: Forecast, output: Output) -> None:
    """One line per alpha over gamma."""
    suffix = "" if output.path is None else output.path.suffix
    if suffix not in (".png", ".svg"):
        raise ParameterError(f"--plot writes .png or .svg, not {str(output.path or '-')!r}")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ParameterError("--plot needs matplotlib: pip install matplotlib") from None
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    markers = "osD^vP*Xh"
    for index, alpha in enumerate(table.alphas):
        column = [row[index] for row in table.speedups]
        marker = markers[index % len(markers)]
        axes.plot(table.gammas, column, marker=marker, markersize=4, label=f"alpha {alpha:g}")
    if given.gamma:
        axes.plot([given.gamma], [given.speedup], "ks", markersize=9, fillstyle="none", label="asked for")
    axes.axhline(1.0, color="black", linewidth=1, linestyle="--")
    axes.set(xlabel="gamma: guesses per step", ylabel="speed over plain decoding")
    axes.legend(fontsize="small", ncols=2)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=150, format=suffix[1:])
    output.write(drawn.getvalue())
