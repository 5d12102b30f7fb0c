"""The destinations that hold something not delivered, as the beginning of a query: one step in the index for each."""

from typing import Final

NAMES: Final = """
WITH RECURSIVE name (destination) AS (
  SELECT MIN(destination) FROM delivery WHERE state <> 'delivered'
  UNION ALL
  SELECT (SELECT MIN(d.destination) FROM delivery AS d
    WHERE d.destination > name.destination AND d.state <> 'delivered')
  FROM name WHERE name.destination IS NOT NULL)
"""
