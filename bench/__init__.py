"""What the product costs beside what cannot be avoided: `python -m bench`.

Every figure is a ratio to a floor measured in the same run, call by call beside it, so that it
means the same on a fast and on a busy machine. Figures are not tests: nothing here can fail.
"""
