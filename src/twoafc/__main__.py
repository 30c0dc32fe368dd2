"""`python -m twoafc` is the command `twoafc`."""

from twoafc.cli import main

main()
