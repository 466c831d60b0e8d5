"""One file per layer; ``assemble`` lists them in the order a call meets them."""
