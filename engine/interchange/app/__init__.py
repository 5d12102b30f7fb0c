"""Floor 12: the composition root: process, reload, jobs, commands."""
