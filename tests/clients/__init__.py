"""Real agent clients with a stand-in for their model: what our answers look like to a model."""
