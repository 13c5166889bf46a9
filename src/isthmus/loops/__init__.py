"""The loops of a link, which keep all but its data alike: their interface, and their runner."""
