"""The methods of :class:`~schedlang.schedule.stage.StageView`, one family of primitives a file."""
