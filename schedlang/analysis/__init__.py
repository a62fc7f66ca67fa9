"""Facts about a computation or a schedule, for people and for other libraries."""
