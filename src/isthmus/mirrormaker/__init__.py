"""What MirrorMaker 2 writes, written for its clients; and links taken over from it."""
