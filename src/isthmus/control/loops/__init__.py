"""The loops of a link, which keep all but its data alike: one for each kind of thing, all run by one runner."""
