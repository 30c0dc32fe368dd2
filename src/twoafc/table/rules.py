"""The rules of a table, column by column; errors name the first row that breaks a rule, its value, and how many do."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from twoafc.arrays import BoolArray, FloatArray, IntArray
from twoafc.errors import DataError

Where = Callable[[int], str]
"""Returns where a row is: "row 17", for a text file "row 17 (line 19)"."""

LABELS = ("triplet", "group", "ref", "ref0", "x0", "ref1", "x1", "observer")
PAIR_LABELS = ("pair", "group", "ref", "x", "observer")
RESERVED_GROUPS = ("all", "mean")
MOST_VOTES = 10**9
"""On one triplet; products of larger counts would not fit in an integer."""
UNNAMED = "distance"
"""The name of a distance whose columns are plain ``d0`` and ``d1``."""


def distance_columns(columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Find the distances of a table: NAME_d0 with NAME_d1 (triplets) or NAME_d (pairs), without NAME_ where unnamed.

    Examples
    --------
    >>> distance_columns(["n", "M", "ssim_d0", "ssim_d1"]), distance_columns(["n", "M", "d"])
    ({'ssim': ('ssim_d0', 'ssim_d1')}, {'distance': ('d',)})
    """
    ones, twos = ([c for c in columns if re.fullmatch(rf"(.*_|){end}", c)] for end in ("d", "d[01]"))
    if ones and twos:
        raise DataError(
            f"a table has pairs (NAME_d) or triplets (NAME_d0 and NAME_d1), since n counts other votes in each; "
            f"found {ones[0]} and {twos[0]}"
        )
    by_name: dict[str, tuple[str, ...]] = {}
    for column in ones or twos:
        prefix = column.removesuffix("d") if ones else column[:-2]
        if prefix == "_":
            raise DataError(
                f"a distance needs a name before its {'_d' if ones else '_d0 or _d1'}; found the column {column}"
            )
        pair = (column,) if ones else (f"{prefix}d0", f"{prefix}d1")
        missing = next((partner for partner in pair if partner not in columns), None)
        if missing:
            raise DataError(f"a distance needs both of its columns; {column} has no partner {missing}")
        name = prefix[:-1] or UNNAMED
        if by_name.setdefault(name, pair) != pair:
            raise DataError(f"two distances are called {name}: {by_name[name][0]} and {pair[0]}; rename one")
    return by_name


def says_votes(columns: list[str]) -> bool:
    """Return whether rows are single votes (choice) rather than counts (n, M)."""
    counts = [name for name in ("n", "M") if name in columns]
    if "choice" in columns and counts:
        raise DataError(f"a table has n and M, or choice; found choice and {' and '.join(counts)}")
    missing = missing_votes(columns)
    if missing:
        noun = "columns" if " and " in missing else "column"
        raise DataError(f"missing {noun} {missing}; a table has n and M, or choice; {found_columns(columns)}")
    return "choice" in columns


def missing_votes(columns: Sequence[str]) -> str:
    """Name the columns of votes that a table lacks; empty if it has them."""
    if "choice" in columns or {"n", "M"} <= set(columns):
        return ""
    return " and ".join(name for name in ("n", "M") if name not in columns)


COLUMN_NAMES = {
    "choice": "response answer resp judgment judgement chosen selected selection vote decision",
    "M": "total n_votes num_votes n_total raters n_raters",
    "observer": "participant participant_id participantid subject subject_id subjectid worker worker_id workerid user "
    "user_id userid rater annotator respondent prolific_pid run_id",
    "ref": "reference ref_image reference_image original source img_ref image_ref",
    "x0": "left image_a img_a option_a image_left left_image stimulus_a a",
    "x1": "right image_b img_b option_b image_right right_image stimulus_b b",
    "triplet": "trial_id item item_id stimulus_id question",
    "weight": "weights sampling_weight sample_weight survey_weight",
}
"""Other common names of the columns, in lower case."""


def likely_columns(columns: Sequence[str]) -> dict[str, str]:
    """Guess which columns of a table are known columns under another name; each once, and none that the table has.

    Examples
    --------
    >>> likely_columns(["participant", "rt", "response", "ref"])
    {'participant': 'observer', 'response': 'choice'}
    >>> likely_columns(["n", "M", "SSIM_D0", "SSIM_D1"])
    {'SSIM_D0': 'SSIM_d0', 'SSIM_D1': 'SSIM_d1'}
    """
    ours = {alias: name for name, aliases in COLUMN_NAMES.items() for alias in aliases.split()}
    likely: dict[str, str] = {}
    for column in columns:
        name = ours.get(column.strip().lower().replace(" ", "_"))
        if re.fullmatch(r".+_D[01]?", column):
            name = re.sub(r"_D(?=[01]?$)", "_d", column)
        votes = {"choice": {"n", "M"}, "M": {"choice"}}.get(name or "", set())
        if name and name not in columns and name not in likely.values() and not votes & set(columns):
            likely[column] = name
    return likely


def found_columns(columns: Sequence[str]) -> str:
    """List the columns of a table that lacks some, with the renaming that may help."""
    scaling = "; judgements of difference scaling are read by twoafc.datasets.read_quadruples"
    if {"s1", "s2", "s3", "s4"} <= {column.lower() for column in columns}:
        return f"found {', '.join(columns)}{scaling}"
    likely = [f"--rename {old}={new}" for old, new in likely_columns(columns).items()]
    hint = f"; perhaps {' '.join(likely)}" if likely else ""
    return f"found {', '.join(columns)}{hint}"


def labels_of(frame: pl.DataFrame, where: Where, names: Sequence[str] = LABELS) -> pl.DataFrame:
    """Return those of the columns with names that a table has, as text; none may be blank."""
    kept = [name for name in names if name in frame.columns]
    for name in kept:
        if frame[name].dtype.is_nested() or frame[name].dtype in (pl.Binary, pl.Object):
            raise DataError(f"{name} must be text or numbers; the column has type {frame[name].dtype}")
    labels = frame.select(pl.col(name).cast(pl.String) for name in kept)
    for name in labels.columns:
        blank = labels[name].is_null() | (labels[name] == "")
        _refuse_missing(blank.to_numpy(), name, where)
    if "group" in labels.columns:
        group = labels["group"]
        rule = f"a group must not be named {' or '.join(RESERVED_GROUPS)} (names of summary rows)"
        refuse(group.is_in(RESERVED_GROUPS).to_numpy(), rule, where, lambda row: f"group={group[row]!r}")
    return labels


def finite_column(frame: pl.DataFrame, column: str, where: Where) -> FloatArray:
    """Return one column of finite numbers, such as a distance."""
    values = numbers_of(frame, column, where)
    series = frame[column]
    missing = series.str.strip_chars().fill_null("") == "" if series.dtype == pl.String else series.is_null()
    _refuse_missing(missing.to_numpy(), column, where)
    refuse(~np.isfinite(values), f"{column} must be finite", where, lambda row: f"{column}={values[row]}")
    return values


def weight_of(frame: pl.DataFrame, where: Where) -> FloatArray | None:
    """Return the column weight, the inverse of each row's inclusion probability.

    None where there is none, and where all are equal: then every row represents as many others.
    """
    if "weight" not in frame.columns:
        return None
    weight = finite_column(frame, "weight", where)
    refuse(weight <= 0, "weight must be positive", where, lambda row: f"weight={weight[row]:g}")
    return None if (weight == weight[0]).all() else weight


def _whole(frame: pl.DataFrame, column: str, where: Where) -> IntArray:
    values = numbers_of(frame, column, where)
    _refuse_missing(np.isnan(values), column, where)
    fractional = ~np.isfinite(values) | (values != np.round(values))
    refuse(fractional, f"{column} must be a whole number", where, lambda row: f"{column}={values[row]}")
    huge = np.abs(values) > MOST_VOTES
    refuse(huge, f"{column} must be a number of votes", where, lambda row: f"{column}={values[row]:g}")
    return values.astype(np.int64)


def counts_of(frame: pl.DataFrame, where: Where) -> tuple[IntArray, IntArray]:
    """Return n and M: whole numbers, M at least 1, n in [0, M]."""
    n, M = _whole(frame, "n", where), _whole(frame, "M", where)
    refuse(M < 1, "M must be at least 1", where, lambda row: f"M={M[row]}")
    refuse((n < 0) | (n > M), "n must lie in [0, M]", where, lambda row: f"n={n[row]}, M={M[row]}")
    return n, M


ANSWERS = {
    answer: str(value)
    for answers in (("x0", "x1"), ("left", "right"), ("arrowleft", "arrowright"), ("a", "b"), ("false", "true"))
    for value, answer in enumerate(answers)
}
"""Words for a choice of x0 (0) and of x1 (1), in lower case."""
SIDES = ["left", "right", "arrowleft", "arrowright"]


def choices_of(frame: pl.DataFrame, where: Where) -> IntArray:
    """Return the column choice: 1 where x1 was chosen, 0 where x0 was; it may have words (`ANSWERS`).

    Where the column ``first`` says that x1 was shown on the left, left is x1.
    """
    if frame["choice"].dtype == pl.String:
        words = frame["choice"].str.strip_chars().str.to_lowercase()
        text = words.replace(ANSWERS)
        if "first" in frame.columns:
            turned = (words.is_in(SIDES) & (frame["first"].cast(pl.String) == "x1")).fill_null(False)
            text = pl.select(pl.when(turned).then(text.replace({"0": "1", "1": "0"})).otherwise(text)).to_series()
        wrong = text.is_not_null() & (text != "") & text.cast(pl.Float64, strict=False).is_null()
        rule = "choice must be 0 or 1, x0 or x1, left or right, A or B"
        refuse(wrong.to_numpy(), rule, where, lambda row: f"choice={frame['choice'][row]!r}")
        frame = frame.with_columns(choice=text)
    choice = _whole(frame, "choice", where)
    refuse((choice != 0) & (choice != 1), "choice must be 0 or 1", where, lambda row: f"choice={choice[row]}")
    return choice


def numbers_of(frame: pl.DataFrame, column: str, where: Where) -> FloatArray:
    """Return one column as numbers; a missing cell is NaN, other text is refused with its row."""
    series = frame[column]
    if series.dtype == pl.String:
        text = series.str.strip_chars()
        series = text.cast(pl.Float64, strict=False)
        wrong = series.is_null() & text.is_not_null() & (text != "")
        refuse(wrong.to_numpy(), f"{column} must be a number", where, lambda row: f"{column}={text[row]!r}")
    elif not (series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.Null)):
        raise DataError(f"{column} must be a number; the column has type {series.dtype}")
    return series.cast(pl.Float64).fill_null(np.nan).to_numpy().copy()


def _refuse_missing(missing: BoolArray, column: str, where: Where) -> None:
    refuse(missing, f"{column} must not be missing", where, lambda row: f"no {column}")


def refuse(wrong: BoolArray, rule: str, where: Where, found: Callable[[int], str]) -> None:
    """Raise a DataError that names the rule, the first row that breaks it, its value, and how many do."""
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(f"{rule}; {where(row)} has {found(row)} ({int(wrong.sum())} of {len(wrong)} rows)")
