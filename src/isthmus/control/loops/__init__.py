"""What a link keeps alike beside its data: a loop for each kind of thing, all run by one runner."""
