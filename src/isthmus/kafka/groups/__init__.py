"""Consumer groups as their coordinators report them, and their members."""
