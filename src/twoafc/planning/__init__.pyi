from .deciding import Gate as Gate
from .deciding import gate as gate
