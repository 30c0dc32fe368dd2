"""`python -m twoafc` is the command `twoafc`."""

from twoafc.cli import main

if __name__ == "__main__":
    main()
