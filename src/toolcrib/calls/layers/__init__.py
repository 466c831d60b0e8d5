"""One file per layer; ``stack`` lists them in the order a call meets them."""
