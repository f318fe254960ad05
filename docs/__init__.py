"""The documentation; a package so that its generated parts can be made and tested."""
