from .checks import check as check
from .findings import Finding as Finding
from .findings import join_names as join_names
from .overlap import check_overlap as check_overlap
