"""`python -m venue` is the command `venue`."""

from venue.cli import main

if __name__ == "__main__":
    main()
