from .candidates import make_candidates as make_candidates
from .cluster import connect as connect
from .contract import Report as Report
from .contract import check_distance as check_distance
from .run import Failure as Failure
from .run import Measured as Measured
from .run import cores as cores
from .run import measure as measure
