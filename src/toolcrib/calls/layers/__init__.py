"""The layers, those that belong together in one file; ``crib.layers`` lists them in the order a call meets them."""
