"""What the person who runs the extension or the command decides."""
