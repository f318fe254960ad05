"""What can be read by address: outputs in full."""
