"""Analysis of computations and schedules: costs, stage graphs, and traffic."""
