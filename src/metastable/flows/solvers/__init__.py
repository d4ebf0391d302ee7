"""The equation of each kind of measure, solved call by call: see `solver.Solver`."""
