"""Who is judged: processes that copy topics from the source to the target."""
