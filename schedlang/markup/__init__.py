"""What people see: HTML of notebooks and reports in one style, and a line for what takes long."""
