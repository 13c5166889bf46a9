"""The parts of the data source `isthmus`: its options, its columns, what is read, and streams."""
