"""A schedule at once, without a search: ``sl.autoschedule``."""
