"""`python -m laybare` is `laybare`, where the script is not on the path."""

from laybare.cli import main

if __name__ == "__main__":
    main()
