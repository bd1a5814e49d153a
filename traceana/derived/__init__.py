"""Tables derived from a store that claims and report sections share: a session in, a table out."""
