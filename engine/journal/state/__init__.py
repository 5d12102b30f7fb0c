"""What is known beside the entries, over restarts: what destinations hold, what is paused, counted, proven, alerted."""
