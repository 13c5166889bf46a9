"""What operators' tools are told of links that run: as metrics, and as health. It reads what the controller has in
memory anyway, so that looking opens no connection and holds nothing up.
"""
