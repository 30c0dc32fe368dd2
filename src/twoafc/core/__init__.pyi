from .binomial import counts_width as counts_width
from .binomial import likely_counts as likely_counts
from .binomial import log_coefficient as log_coefficient
from .binomial import log_pmf as log_pmf
from .binomial import pmf_table as pmf_table
from .uniform import Uniform as Uniform
from .uniform import require_numbers as require_numbers
from .uniform import uniformise as uniformise
