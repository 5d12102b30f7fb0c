"""What people are shown, as plain values: rows, counts, health, reasons; the same in terminal, pages and API."""
