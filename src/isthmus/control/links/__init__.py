"""Links: started, run, watched and ended; what controllers of one link know of each other."""
