from engine.config.channel import Channel
from engine.config.reference import setting_rows, settings_table


def test_every_setting_has_a_meaning() -> None:
    """Each key of a channel file is in the table once and explained."""
    rows = setting_rows()
    names = [row.name for row in rows]
    assert len(set(names)) == len(names)
    assert all(row.meaning for row in rows)
    written = {(field.alias or name) for name, field in Channel.model_fields.items()}
    assert {name.replace("[]", "").split(".")[0] for name in names} == written


def test_rows_show_default_and_unit() -> None:
    """A default is written as in YAML and a unit stands where the name ends in one."""
    rows = {row.name: row for row in setting_rows()}
    assert (rows["limits.block_bytes"].default, rows["limits.block_bytes"].unit) == ("1048576", "bytes")
    assert (rows["processing_ids"].default, rows["allow_merge"].default) == ("[P]", "false")
    assert (rows["channel"].default, rows["mode"].default) == ("required", "live")
    assert rows["listen.mllp.commit_bytes"].unit == ""
    assert "destinations[].auth.client_secret" in rows


def test_the_table_is_markdown() -> None:
    """Each row of the table has four cells; a bar in a meaning is escaped."""
    lines = settings_table().splitlines()
    assert lines[1] == "|---|---|---|---|"
    assert all(line.replace("\\|", "").count("|") == 5 for line in lines)
