"""Images moved, stretched and padded."""
