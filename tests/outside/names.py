"""Public names, their parameters and their members."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from functools import cached_property
from typing import Any

import twoafc

NAMES = {
    "twoafc": "DataError Density Finding Fusion Network Pairs Settings Spline Triplets check check_distance datasets "
    "distance evaluate fetch fuse gate join_columns load measure metrics plots reproduce worlds",
    "twoafc.metrics": "agreement agreement_per_triplet choice expected_agreement expected_agreement_per_triplet "
    "expected_nll expected_nll_per_triplet expected_score_2afc log_likelihood most_likely nll nll_per_vote score_2afc "
    "score_2afc_distance score_2afc_per_triplet simulate",
    "twoafc.plots": "COLOURS ForestRow SweepCurve colour_bar counts_nll disagreement_card forest reliabilities "
    "reliability residual_map residual_maps save scatter standard_error standard_errors surface surfaces svg sweep "
    "triplet_card votes votes_by_M worked_example",
    "twoafc.worlds": "DISTANCES WORLDS cast_votes saturating simulate sqrt_noise thurstone true_probability turning "
    "useless weber",
    "twoafc.datasets": "Dataset open_bapps open_bapps_jnd open_clic open_dataset open_nights open_table "
    "read_quadruples without_anchors",
    "twoafc.fetch": "Archive Got State chosen data_folder get import_file known status verify weights_folder",
    "twoafc.reproduce": "Aggregate Options Reproduction Slip aggregates reproduce slips",
}
# What the package returns and no user constructs.
RETURNED = {"Aggregate", "Archive", "Finding", "Got", "Reproduction", "Slip", "State"}
# Of fits, what users are shown; the rest serves files.
FITS = {
    "density": "probability save settings standard_error surface uniform",
    "spline": "lapse link probability save settings standard_error uniform",
    "network": "diverged probability save settings training_nll uniform",
}
# To be removed on purpose.
LEFT_OUT = {"sigma_along", "simulated_seed", "width"}


def parameters(function: Any) -> dict[str, Any]:
    """How a function can be called."""
    given = [one for one in inspect.signature(function).parameters.values() if one.name not in LEFT_OUT]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {
        "positional": [one.name for one in given if one.kind in positional],
        "keywords": [one.name for one in given if one.kind is inspect.Parameter.KEYWORD_ONLY],
        "required": [one.name for one in given if one.default is one.empty and one.kind not in variable],
    }


def members(thing: Any) -> list[str]:
    """Public attributes of a class or an object."""
    fields = {field.name for field in dataclasses.fields(thing)} if dataclasses.is_dataclass(thing) else set()
    # Methods of tuples are not ours.
    foreign = LEFT_OUT | (
        set(dir(tuple)) if issubclass(thing if inspect.isclass(thing) else type(thing), tuple) else set()
    )
    return sorted({name for name in fields | set(dir(thing)) if not name.startswith("_")} - foreign)


def described(thing: Any, name: str) -> dict[str, Any]:
    """Parameters of a function or a constructor, and the members of a class with the parameters of its methods."""
    if inspect.ismodule(thing) or not callable(thing):
        return {"kind": "module" if inspect.ismodule(thing) else "value"}
    if not inspect.isclass(thing):
        return {"kind": "function", "call": parameters(thing)}
    if issubclass(thing, Exception):
        return {"kind": "class", "bases": [base.__name__ for base in thing.__mro__[1:-1]]}
    found: dict[str, Any] = {"kind": "class", "members": dict.fromkeys(members(thing))}
    if name not in RETURNED:
        found["call"] = parameters(thing)
    methods = {one: getattr(thing, one, None) for one in members(thing)}
    methods = {one: method for one, method in methods.items() if not isinstance(method, cached_property)}
    found["methods"] = {one: parameters(method) for one, method in methods.items() if inspect.isroutine(method)}
    return found


def modules() -> dict[str, Any]:
    """Describe every public name that is there, by module."""
    found: dict[str, Any] = {}
    for module, names in NAMES.items():
        home = importlib.import_module(module)
        found[module] = {name: described(getattr(home, name), name) for name in names.split() if hasattr(home, name)}
    return found


def objects() -> dict[str, Any]:
    """Members of fits and of the result of an evaluation."""
    table = twoafc.Triplets.from_frame(twoafc.worlds.simulate("weber", triplets=300, votes=[2, 3], seed=1))
    estimators = {"density": twoafc.Density(), "spline": twoafc.Spline(), "network": twoafc.Network(epochs=1)}
    found: dict[str, Any] = {}
    for name, estimator in estimators.items():
        fit = estimator.fit(table)
        found[name] = {one: callable(getattr(fit, one)) for one in FITS[name].split() if hasattr(fit, one)}
        found[name]["probability"] = parameters(fit.probability)
    found["table"] = {"length": len(table), "distances": list(table.distances), "one": table["distance"].d0[:2]}
    result = twoafc.evaluate(table, table)
    found["evaluate"] = dict.fromkeys(members(result))
    found["run"] = dict.fromkeys(one for one in members(result.runs[0]) if one != "binning")
    found["finding"] = dict.fromkeys(members(twoafc.check(table, table)[0]))
    found["check_distance"] = dict.fromkeys(members(twoafc.check_distance(twoafc.distance("rmse"))))
    found["ceiling"] = dict.fromkeys(members(result.ceiling))
    return found
