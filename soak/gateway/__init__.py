"""The soak with gateways in the path of a synchronous link: clients as processes, faults by seed, and a judge."""
