"""Go binaries, Debian packages and command-line tools from PyPI, obtained once."""
