"""Reports on running links for operators' tools: metrics and health. They read what the controller has in memory
anyway, so that a look opens no connection and delays nothing.
"""
