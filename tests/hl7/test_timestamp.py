"""Timestamps: precision, zones and the two hours a year that clocks do not agree on."""

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import TimestampError
from engine.hl7.timestamp import offset_of_message, parse_timestamp

BERLIN = ZoneInfo("Europe/Berlin")
CHICAGO = ZoneInfo("America/Chicago")


@pytest.mark.parametrize(
    ("text", "precision", "day", "moment"),
    [
        pytest.param("1956", 4, "1956", "1956", id="year"),
        pytest.param("195602", 6, "1956-02", "1956-02", id="month"),
        pytest.param("19560229", 8, "1956-02-29", "1956-02-29", id="day"),
        pytest.param("2024022910", 10, "2024-02-29", "2024-02-29", id="hour: a date, as FHIR knows no bare hours"),
        pytest.param("202402291015", 12, "2024-02-29", "2024-02-29T10:15:00+01:00", id="minute"),
        pytest.param("20240729101530", 14, "2024-07-29", "2024-07-29T10:15:30+02:00", id="second, in summer"),
        pytest.param("20240729101530.1", 14, "2024-07-29", "2024-07-29T10:15:30.1+02:00", id="fraction as sent"),
        pytest.param("20240729101530.1200", 14, "2024-07-29", "2024-07-29T10:15:30.1200+02:00", id="its zeros kept"),
        pytest.param("20240729101530.", 14, "2024-07-29", "2024-07-29T10:15:30+02:00", id="a point without digits"),
        pytest.param("20240729101530-0530", 14, "2024-07-29", "2024-07-29T10:15:30-05:30", id="its own offset"),
        pytest.param("202407291015+0000", 12, "2024-07-29", "2024-07-29T10:15:00+00:00", id="UTC"),
        pytest.param("19560229+0100", 8, "1956-02-29", "1956-02-29", id="a date with an offset"),
        pytest.param(" 19560229 ", 8, "1956-02-29", "1956-02-29", id="blanks around"),
        pytest.param("188001010000", 12, "1880-01-01", "1880-01-01T00:00:00+00:53", id="local mean time to the minute"),
        pytest.param("99991231235959", 14, "9999-12-31", "9999-12-31T23:59:59+01:00", id="the end of time"),
    ],
)
def test_precision_is_kept(text, precision, day, moment):
    """What was not sent is not made up, and dates are as written."""
    found = parse_timestamp(text, BERLIN)
    assert found.precision == precision
    assert found.fhir_date() == day
    assert found.fhir_datetime() == moment
    assert found.flags == ()
    assert (found.date is None) == (precision < 8)


def test_instants():
    """`at` is an aware instant, the first one of what was sent."""
    assert parse_timestamp("202402291015", BERLIN).at == datetime(2024, 2, 29, 9, 15, tzinfo=UTC)
    assert parse_timestamp("2024", BERLIN).at == datetime(2023, 12, 31, 23, 0, tzinfo=UTC)
    assert parse_timestamp("20240229", CHICAGO).date == date(2024, 2, 29)


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "195", "19561", "1956023", "19561301", "19560230", "19560229250000", "195602291060", "0000"),
        *("20240229101560", "2024022910153", "20240229T1015", "2024-02-29", "00010101000000", "20240229101530Z"),
        *("202402291015+1", "202402291015+1560", "202402291015+1401", "20240229101530.1234567890", "19560001"),
        *("19560100000001", '""'),
    ],
)
def test_no_timestamp(text):
    """What is no moment of the calendar is refused, and the error does not say what it was."""
    with pytest.raises(TimestampError) as caught:
        parse_timestamp(text, BERLIN)
    assert not text or text not in str(caught.value) or len(text) < 4


@pytest.mark.parametrize(
    ("text", "day", "precision"), [("19560000", "1956", 4), ("195600", "1956", 4), ("19560200", "1956-02", 6)]
)
def test_zeros_for_what_is_unknown(text, day, precision):
    """Old senders write 00 for an unknown month or day: less precision, flagged."""
    found = parse_timestamp(text, BERLIN)
    assert (found.fhir_date(), found.precision, found.flags) == (day, precision, ("zero-padded",))


@pytest.mark.parametrize(
    ("zone", "text", "expected", "flags"),
    [
        pytest.param(BERLIN, "20241027015959", "2024-10-27T01:59:59+02:00", (), id="before the repeated hour"),
        pytest.param(BERLIN, "20241027020000", "2024-10-27T02:00:00+02:00", ("repeated-hour",), id="first pass"),
        pytest.param(BERLIN, "20241027025959", "2024-10-27T02:59:59+02:00", ("repeated-hour",), id="to its end"),
        pytest.param(BERLIN, "20241027030000", "2024-10-27T03:00:00+01:00", (), id="behind the repeated hour"),
        pytest.param(BERLIN, "20241027023000+0100", "2024-10-27T02:30:00+01:00", (), id="told by its offset"),
        pytest.param(BERLIN, "20240331015959", "2024-03-31T01:59:59+01:00", (), id="before the skipped hour"),
        pytest.param(BERLIN, "20240331020000", "2024-03-31T03:00:00+02:00", ("skipped-hour",), id="moved forward"),
        pytest.param(BERLIN, "20240331023000.5", "2024-03-31T03:30:00.5+02:00", ("skipped-hour",), id="with fraction"),
        pytest.param(BERLIN, "20240331030000", "2024-03-31T03:00:00+02:00", (), id="behind the skipped hour"),
        pytest.param(CHICAGO, "202411030130", "2024-11-03T01:30:00-05:00", ("repeated-hour",), id="Chicago, autumn"),
        pytest.param(CHICAGO, "202403100230", "2024-03-10T03:30:00-05:00", ("skipped-hour",), id="Chicago, spring"),
    ],
)
def test_summer_time(zone, text, expected, flags):
    """The repeated hour is its first pass, the skipped hour moves forward; both are flagged, neither else."""
    found = parse_timestamp(text, zone)
    assert (found.fhir_datetime(), found.flags) == (expected, flags)


def test_dates_are_not_flagged_for_a_missing_midnight():
    """A day that begins with a skipped hour is still that day, and nothing had to be decided."""
    found = parse_timestamp("20181104", ZoneInfo("America/Sao_Paulo"))
    assert (found.fhir_date(), found.flags) == ("2018-11-04", ())


def test_offset_of_message():
    """MSH-7 speaks for timestamps without offset only if the zone does not have its offset at that moment."""
    assert offset_of_message("20240701120000+0200", BERLIN) is None
    assert offset_of_message("20240101120000+0100", BERLIN) is None
    assert offset_of_message("20240701120000", BERLIN) is None
    assert offset_of_message("", BERLIN) is None
    assert offset_of_message("nonsense+0100", BERLIN) is None
    assert offset_of_message("20241301120000+0500", BERLIN) is None
    elsewhere = offset_of_message("20240701120000-0500", BERLIN)
    assert elsewhere == timezone(timedelta(hours=-5))
    found = parse_timestamp("202401010800", BERLIN, elsewhere)
    assert (found.fhir_datetime(), found.flags) == ("2024-01-01T08:00:00-05:00", ("message-offset",))
    own = parse_timestamp("202401010800+0300", BERLIN, elsewhere)
    assert (own.fhir_datetime(), own.flags) == ("2024-01-01T08:00:00+03:00", ())
    assert parse_timestamp("19560229", BERLIN, elsewhere).flags == ()


def test_nothing_of_the_patient_in_its_repr():
    """A birth date in a log line does not show."""
    assert "1956" not in repr(parse_timestamp("19560229", BERLIN))


@given(
    st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)),  # noqa: DTZ001
    st.sampled_from([4, 6, 8, 10, 12, 14]),
    st.sampled_from(["Europe/Berlin", "America/Chicago", "Asia/Kolkata", "Australia/Lord_Howe", "UTC"]),
)
def test_round_trip(moment, precision, zone):
    """A timestamp written from its parts is what came in, unless a skipped hour was moved."""
    text = moment.strftime("%Y%m%d%H%M%S")[:precision]
    found = parse_timestamp(text, ZoneInfo(zone))
    assert found.fhir_date().replace("-", "") == text[:8]
    assert found.precision == precision
    if "skipped-hour" not in found.flags:
        assert found.at.strftime("%Y%m%d%H%M%S")[:precision] == text


@given(st.text(alphabet="0123456789.+-", max_size=26))
def test_any_text(text):
    """No text does more than raise TimestampError."""
    try:
        parse_timestamp(text, BERLIN)
    except TimestampError:
        return
