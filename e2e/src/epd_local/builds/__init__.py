"""What the cluster is made of, obtained once: Go binaries, Debian packages, command-line tools from PyPI."""
