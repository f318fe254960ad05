"""What people see in the panel: agents, their calls, and what each call did to each cell."""
