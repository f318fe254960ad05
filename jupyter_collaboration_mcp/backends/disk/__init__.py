"""The disk of this machine: opening, copying, walking and locking files safely."""
