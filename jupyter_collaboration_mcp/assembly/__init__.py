"""Where objects are put together from settings: for the extension, and for the command."""
