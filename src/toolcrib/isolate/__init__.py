"""How far a program that toolcrib runs is kept from the rest: levels, grants, proof."""
