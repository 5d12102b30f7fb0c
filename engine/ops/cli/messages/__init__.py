"""Commands on the journal's entries: list, show, check, export, replay, edit; lanes."""
