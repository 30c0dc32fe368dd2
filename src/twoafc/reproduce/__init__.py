"""The paper's experiments, tables and figures, run on its data sets or on generated ones in their layouts."""

from twoafc.reproduce.printed import Aggregate, Slip, aggregates, slips
from twoafc.reproduce.run import Options, Reproduction, reproduce

__all__ = ["Aggregate", "Options", "Reproduction", "Slip", "aggregates", "reproduce", "slips"]
