"""Consumer groups carried across a link: observe, plan, apply, beside the data and never in its way."""
