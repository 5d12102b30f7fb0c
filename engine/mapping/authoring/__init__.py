"""What helps an author: explanations, coverage, differences, cases, schemas."""
