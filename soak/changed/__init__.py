"""Who changes what he copies, or is no mirror: a link with transforms, and a query from one cluster into another."""
